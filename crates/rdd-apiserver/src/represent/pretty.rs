//! Indents JSON by two spaces, as Go's `json.Indent` does.

/// Indents compact JSON. It does not validate: broken JSON stays broken, but is never an error.
pub(super) fn indent(json: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut string = false;
    let mut escaped = false;
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if string {
            string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            text.push(byte);
            continue;
        }
        match byte {
            // Go writes empty objects and arrays without a line break.
            b'{' | b'[' if matches!(bytes.peek(), Some(b'}' | b']')) => {
                text.push(byte);
                text.extend(bytes.next());
            }
            b'{' | b'[' => {
                depth += 1;
                text.push(byte);
                new_line(&mut text, depth);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(byte);
            }
            b',' => {
                text.push(byte);
                new_line(&mut text, depth);
            }
            b':' => text.extend(b": "),
            b' ' | b'\n' | b'\t' | b'\r' => {}
            other => {
                string = other == b'"';
                text.push(other);
            }
        }
    }
    text
}

fn new_line(text: &mut Vec<u8>, depth: usize) {
    text.push(b'\n');
    text.resize(text.len() + 2 * depth, b' ');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_as_go_indents_it() {
        let json = br#"{"a":{},"b":[],"c":[1,{"d":"x,{\"\\"}],"e":{"f":null}}"#;
        let expected = "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": \"x,{\\\"\\\\\"\n    }\n  ],\n  \"e\": {\n    \"f\": null\n  }\n}";
        assert_eq!(String::from_utf8(indent(json)).unwrap(), expected);
        assert_eq!(indent(b"{}"), b"{}");
        assert_eq!(indent(b"]]}"), b"\n]\n]\n}");
    }
}
