//! URL queries, parsed like Go's `url.Values`: malformed pairs are dropped without an error.

/// The parameters of a query, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Parses the text after the question mark. A pair with a semicolon or a broken escape is dropped.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let pairs = pairs.filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape(name)?, unescape(value)?))
        });
        Self { pairs: pairs.collect() }
    }

    /// The first value of a parameter.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> Vec<String> {
        self.pairs.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect()
    }

    /// Whether the query has no parameters.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

fn unescape(text: &str) -> Option<String> {
    let bytes = percent_decode(&text.replace('+', " "))?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Decodes percent escapes into bytes; `None` if an escape is broken.
pub(crate) fn percent_decode(text: &str) -> Option<Vec<u8>> {
    if !text.contains('%') {
        return Some(text.into());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).expect("two hexadecimal digits make a byte"));
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_unescaped_and_the_first_one_counts() {
        let query = Query::parse("a=1&a=2&b=x%2Cy+z&c&=d&%65=%C3%BC");
        assert_eq!(query.first("a"), Some("1"));
        assert_eq!(query.all("a"), ["1", "2"]);
        assert_eq!((query.first("b"), query.first("c"), query.first("")), (Some("x,y z"), Some(""), Some("d")));
        assert_eq!((query.first("e"), query.first("z")), (Some("ü"), None));
    }

    #[test]
    fn what_is_malformed_is_left_out() {
        let query = Query::parse("a=%&b=%2&c=%zz&d=1;e=2&f=3&&");
        assert_eq!(query, Query { pairs: vec![("f".to_owned(), "3".to_owned())] });
        assert!(Query::parse("").is_empty());
    }
}
