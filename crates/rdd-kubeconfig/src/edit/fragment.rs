//! Formats new parts of a document in the style of their surroundings.

/// A value to write.
#[derive(Debug, Clone)]
pub(super) enum Fragment {
    Text(String),
    Mapping(Vec<(&'static str, Fragment)>),
    EmptySequence,
}

impl Fragment {
    /// As JSON, which is valid in flow style.
    pub(super) fn flow(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::EmptySequence => "[]".to_owned(),
            Self::Mapping(pairs) => {
                let pairs: Vec<String> = pairs.iter().map(|(key, value)| flow_pair(key, value)).collect();
                format!("{{{}}}", pairs.join(", "))
            }
        }
    }

    /// As an item of a block sequence: lines without line endings and without the common indentation.
    pub(super) fn block_item(&self) -> Vec<String> {
        match self {
            Self::Mapping(pairs) => {
                let lines = pairs.iter().flat_map(|(key, value)| block_pair(key, value));
                lines.enumerate().map(|(at, line)| format!("{}{line}", if at == 0 { "- " } else { "  " })).collect()
            }
            other => vec![format!("- {}", other.inline())],
        }
    }

    /// On one line of a block.
    pub(super) fn inline(&self) -> String {
        match self {
            Self::Text(text) if is_safe_plain(text) => text.clone(),
            other => other.flow(),
        }
    }
}

/// Formats a pair of a flow mapping.
pub(super) fn flow_pair(key: &str, value: &Fragment) -> String {
    format!("{}: {}", quoted(key), value.flow())
}

/// Formats a pair of a block mapping as lines, like [`Fragment::block_item`].
pub(super) fn block_pair(key: &str, value: &Fragment) -> Vec<String> {
    match value {
        Fragment::Mapping(pairs) => {
            let inner = pairs.iter().flat_map(|(key, value)| block_pair(key, value));
            std::iter::once(format!("{key}:")).chain(inner.map(|line| format!("  {line}"))).collect()
        }
        other => vec![format!("{key}: {}", other.inline())],
    }
}

/// Quotes a text like JSON, and escapes the characters that YAML does not accept literally.
fn quoted(text: &str) -> String {
    let is_special = |character| {
        matches!(character, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    let json = serde_json::Value::String(text.to_owned()).to_string();
    json.chars().fold(String::with_capacity(json.len()), |mut made, character| {
        if is_special(character) {
            made.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            made.push(character);
        }
        made
    })
}

/// Whether a text needs no quotes, for any parser of YAML 1.1 and 1.2.
fn is_safe_plain(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./+=-".contains(&byte);
    let is_url = |text: &str| {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        rest.is_some_and(|rest| !rest.ends_with(':') && rest.bytes().all(|byte| is_plain(byte) || byte == b':'))
    };
    let is_word = text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_plain);
    (is_word || is_url(text))
        && rdd_yaml::read(text).is_ok_and(|read| read.value == serde_json::Value::String(text.to_owned()))
}
