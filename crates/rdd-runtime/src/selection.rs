//! The value of `--controllers`: which controllers run.

/// The item that selects every controller.
const EVERY: &str = "*";

/// A parsed `--controllers` value: a comma-separated list of `*`, groups and names; a `-` before an item excludes.
///
/// A controller runs if at least one item includes it and no item excludes it. The order does not matter, spaces around items are
/// ignored, unknown names are ignored, and an empty list selects nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    included: Vec<String>,
    excluded: Vec<String>,
}

impl Selection {
    /// Parses the list. Every string is valid.
    pub fn parse(text: &str) -> Self {
        let mut selection = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match item.strip_prefix('-') {
                Some(item) => selection.excluded.push(item.trim().to_owned()),
                None => selection.included.push(item.to_owned()),
            }
        }
        selection
    }

    /// Whether the controller with this name and group runs.
    pub fn selects(&self, name: &str, group: &str) -> bool {
        // A lone `-` excludes an empty item, which must not match controllers without a group.
        let names = |item: &String| item == EVERY || item == name || (!group.is_empty() && item == group);
        self.included.iter().any(names) && !self.excluded.iter().any(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(&str, &str); 8] = [
        ("app", "app"),
        ("demo", "app"),
        ("k3s-versions", "app"),
        ("kubernetes", ""),
        ("limavm", "lima"),
        ("notary", "rdd"),
        ("hostinfo", "rdd"),
        ("engine", "containers"),
    ];

    fn selected(text: &str) -> Vec<&'static str> {
        let selection = Selection::parse(text);
        ALL.into_iter().filter(|(name, group)| selection.selects(name, group)).map(|(name, _)| name).collect()
    }

    #[test]
    fn rows_of_the_grammar() {
        let every: Vec<_> = ALL.into_iter().map(|(name, _)| name).collect();
        for (text, expected) in [
            ("*", every.clone()),
            ("", vec![]),
            (" , ,", vec![]),
            ("app", vec!["app", "demo", "k3s-versions"]),
            (" app , -demo ", vec!["app", "k3s-versions"]),
            ("-demo,app", vec!["app", "k3s-versions"]),
            ("*,-app", vec!["kubernetes", "limavm", "notary", "hostinfo", "engine"]),
            ("-app", vec![]),
            ("kubernetes", vec!["kubernetes"]),
            ("rdd", vec!["notary", "hostinfo"]),
            ("nobody,limavm", vec!["limavm"]),
            ("*,-*", vec![]),
            ("*,-kubernetes,-engine,-lima,-rdd", vec!["app", "demo", "k3s-versions"]),
        ] {
            assert_eq!(selected(text), expected, "{text:?}");
        }
    }
}
