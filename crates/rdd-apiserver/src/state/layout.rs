//! Finds the type and the metadata in an object's JSON without parsing the rest.

/// Positions in an object's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The end of the leading `apiVersion` and `kind` members, including their last comma; 1 if the object begins
    /// with another member.
    pub type_meta_end: usize,
    /// The position right after the opening brace of the metadata.
    pub metadata: usize,
    /// Whether the metadata is an empty object.
    pub metadata_empty: bool,
}

/// Why the positions cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// It is not a JSON object, or it is truncated.
    #[error("malformed JSON at byte {at}")]
    Malformed {
        /// The byte offset.
        at: usize,
    },
    /// It has no metadata, or metadata that is not an object.
    #[error("no metadata")]
    NoMetadata,
    /// Its metadata has a resourceVersion. The state never stores one; it adds it when it serves the object.
    #[error("stored with a resourceVersion")]
    HasVersion,
}

/// Finds the positions in an object's JSON. It reads no further than the end of the metadata.
pub fn layout(json: &[u8]) -> Result<Layout, LayoutError> {
    let mut scan = Scan { json, at: 0 };
    scan.space();
    scan.expect(b'{')?;
    let mut type_meta_end = scan.at;
    let mut leading = true;
    loop {
        scan.space();
        if scan.peek() == Some(b'}') {
            return Err(LayoutError::NoMetadata);
        }
        let name = scan.member()?;
        if name == b"metadata" {
            return metadata(scan, type_meta_end);
        }
        scan.value()?;
        scan.space();
        if scan.peek() == Some(b'}') {
            return Err(LayoutError::NoMetadata);
        }
        scan.expect(b',')?;
        leading &= matches!(name, b"apiVersion" | b"kind");
        if leading {
            type_meta_end = scan.at;
        }
    }
}

fn metadata(mut scan: Scan<'_>, type_meta_end: usize) -> Result<Layout, LayoutError> {
    if scan.peek() != Some(b'{') {
        return Err(LayoutError::NoMetadata);
    }
    scan.at += 1;
    let found = scan.at;
    scan.space();
    if scan.peek() == Some(b'}') {
        return Ok(Layout { type_meta_end, metadata: found, metadata_empty: true });
    }
    loop {
        scan.space();
        if scan.member()? == b"resourceVersion" {
            return Err(LayoutError::HasVersion);
        }
        scan.value()?;
        scan.space();
        if scan.peek() == Some(b'}') {
            return Ok(Layout { type_meta_end, metadata: found, metadata_empty: false });
        }
        scan.expect(b',')?;
    }
}

struct Scan<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn malformed(&self) -> LayoutError {
        LayoutError::Malformed { at: self.at }
    }

    fn expect(&mut self, byte: u8) -> Result<(), LayoutError> {
        if self.peek() != Some(byte) {
            return Err(self.malformed());
        }
        self.at += 1;
        Ok(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Reads the name of a member and advances to its value.
    fn member(&mut self) -> Result<&'a [u8], LayoutError> {
        let name = self.string()?;
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(name)
    }

    /// Reads a string without its quotes; escapes stay as written.
    fn string(&mut self) -> Result<&'a [u8], LayoutError> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => return Err(self.malformed()),
            }
        }
        self.at += 1;
        Ok(&self.json[start..self.at - 1])
    }

    /// Skips a value. It only counts brackets: whoever decodes the object makes the full check.
    fn value(&mut self) -> Result<(), LayoutError> {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Some(b'"') => drop(self.string()?),
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b'}' | b']') if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                Some(b',' | b'}' | b']') if depth == 0 => return Err(self.malformed()),
                Some(_) if depth == 0 => {
                    self.scalar();
                }
                Some(_) => self.at += 1,
                None => return Err(self.malformed()),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Skips a number, `true`, `false` or `null`.
    fn scalar(&mut self) {
        while !matches!(self.peek(), None | Some(b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The JSON with `^` at the end of the type, and `@` where the metadata begins (`%` if it is empty).
    fn mark(json: &str) -> String {
        match layout(json.as_bytes()) {
            Ok(found) => {
                let sign = if found.metadata_empty { '%' } else { '@' };
                let (head, tail) = json.split_at(found.metadata);
                let (kind, rest) = head.split_at(found.type_meta_end);
                format!("{kind}^{rest}{sign}{tail}")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_type_and_the_metadata_are_found_wherever_they_are() {
        let table = [
            (r#"{"metadata":{}}"#, r#"{^"metadata":{%}}"#),
            (
                r#"{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}"#,
                r#"{"apiVersion":"v1","kind":"A",^"metadata":{@"name":"a"}}"#,
            ),
            (r#"{"kind":"A","metadata":{"name":"a"}}"#, r#"{"kind":"A",^"metadata":{@"name":"a"}}"#),
            (r#"{"a":[{"b":"]}"}],"kind":"A","metadata":{}}"#, r#"{^"a":[{"b":"]}"}],"kind":"A","metadata":{%}}"#),
            (
                r#" { "kind" : "A" , "metadata" : { "x" : 1.5 } }"#,
                r#" { "kind" : "A" ,^ "metadata" : {@ "x" : 1.5 } }"#,
            ),
            (r#"{"s":"a\"{","t":null,"metadata":{"n":[1,2]}}"#, r#"{^"s":"a\"{","t":null,"metadata":{@"n":[1,2]}}"#),
        ];
        for (json, marked) in table {
            assert_eq!(mark(json), marked);
        }
    }

    #[test]
    fn what_cannot_be_served_is_refused_with_the_reason() {
        let table = [
            ("", "malformed JSON at byte 0"),
            ("[]", "malformed JSON at byte 0"),
            ("{}", "no metadata"),
            (r#"{"metadata":null}"#, "no metadata"),
            (r#"{"kind":"A"}"#, "no metadata"),
            (r#"{"kind":"A""#, "malformed JSON at byte 11"),
            (r#"{"kind":,"metadata":{}}"#, "malformed JSON at byte 8"),
            (r#"{"metadata":{"name":"a"#, "malformed JSON at byte 22"),
            (r#"{"metadata":{"name":"a\"#, "malformed JSON at byte 24"),
            (
                r#"{"metadata":{"labels":{"resourceVersion":"1"},"resourceVersion":"7"}}"#,
                "stored with a resourceVersion",
            ),
        ];
        for (json, reason) in table {
            assert_eq!(mark(json), reason, "{json}");
        }
        assert!(mark(r#"{"metadata":{"labels":{"resourceVersion":"1"}}}"#).contains('@'));
    }
}
