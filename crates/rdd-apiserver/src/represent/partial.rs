//! `PartialObjectMetadata`: copies the metadata of an object out of its JSON without parsing it.

use std::ops::Range;

use bytes::Bytes;

use super::MetaVersion;

/// The metadata of an object as `PartialObjectMetadata`. The metadata is empty if the input is not an object.
pub(super) fn object(version: MetaVersion, json: &Bytes) -> Bytes {
    let metadata = member(json, "metadata").map_or(&b"{}"[..], |range| &json[range]);
    let api_version = version.api_version();
    let before = format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"{api_version}","metadata":"#);
    [before.as_bytes(), metadata, b"}"].concat().into()
}

/// Finds the value of a top-level member in the JSON of an object. It reads only up to the end of the value.
fn member(json: &[u8], name: &str) -> Option<Range<usize>> {
    let mut at = after(json, 0, b'{')?;
    loop {
        let start = space(json, at);
        let end = string(json, start)?;
        let found = &json[start + 1..end - 1];
        let start = space(json, after(json, end, b':')?);
        at = value(json, start)?;
        if found == name.as_bytes() {
            return Some(start..at);
        }
        at = after(json, at, b',')?;
    }
}

/// The position after an expected character, with space before it skipped.
fn after(json: &[u8], at: usize, expected: u8) -> Option<usize> {
    let at = space(json, at);
    (json.get(at) == Some(&expected)).then_some(at + 1)
}

fn space(json: &[u8], at: usize) -> usize {
    let blank = json.iter().skip(at).take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count();
    at + blank
}

/// The position after a string.
fn string(json: &[u8], at: usize) -> Option<usize> {
    let mut at = after(json, at, b'"')?;
    loop {
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The position after a value of any type.
fn value(json: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = start;
    loop {
        match json.get(at)? {
            b'"' => at = string(json, at)? - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(at),
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
        // A closing bracket or quote ends the value itself; numbers and literals end before the next separator.
        if depth == 0 && matches!(json.get(at - 1), Some(b'}' | b']' | b'"')) {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_is_cut_out_wherever_it_is() {
        for (json, metadata) in [
            (
                r#"{"apiVersion":"v1","kind":"A","metadata":{"name":"a","x":[{}]},"spec":{}}"#,
                r#"{"name":"a","x":[{}]}"#,
            ),
            (r#"{"a":[1,{"metadata":5}],"b":"}\"{","c":true , "metadata" : {"n":"\\\"}"} }"#, r#"{"n":"\\\"}"}"#),
            (r#"{"metadata":null}"#, "null"),
            (r#"{"a":1}"#, "{}"),
            ("[]", "{}"),
            (r#"{"metadata":{"#, "{}"),
        ] {
            let expected =
                format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{metadata}}}"#);
            assert_eq!(object(MetaVersion::V1, &Bytes::from(json.as_bytes())), expected, "{json}");
        }
    }
}
