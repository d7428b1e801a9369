//! Generates JSON texts, paths, patterns and strings of the known formats.

use serde_json::{Value, json};

use super::Random;

impl Random {
    /// A short string with characters that need escapes.
    pub(crate) fn text(&mut self) -> String {
        let parts = [
            "a", "b", "\"", "\\", "\n", "\t", "é", "<", "&", "\u{2028}", "\u{7f}", "\u{200b}", "😀", "\u{301}", " ",
            "\u{1}", "\u{ad}", "'",
        ];
        (0..self.below(6)).map(|_| *self.pick(&parts)).collect()
    }

    /// An object whose keys may repeat.
    pub(crate) fn duplicated_json(&mut self) -> String {
        self.duplicated_object(3)
    }

    fn duplicated_object(&mut self, depth: usize) -> String {
        let entries: Vec<String> = (0..self.below(5))
            .map(|_| {
                let key = *self.pick(&["a", "b", "c", "a.b", "é\\u0022", ""]);
                format!("\"{key}\":{}", self.duplicated_value(depth))
            })
            .collect();
        format!("{{{}}}", entries.join(","))
    }

    fn duplicated_value(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 3 } else { 6 }) {
            0 => "1".to_owned(),
            1 => "\"x\"".to_owned(),
            2 => "null".to_owned(),
            3 => {
                let items: Vec<String> = (0..self.below(3)).map(|_| self.duplicated_value(depth - 1)).collect();
                format!("[{}]", items.join(", "))
            }
            _ => self.duplicated_object(depth - 1),
        }
    }

    /// Any JSON text with numbers of all kinds.
    pub(crate) fn json_text(&mut self) -> String {
        let numbers = [
            "1",
            "-1",
            "1.0",
            "1e3",
            "1E-7",
            "123456789012345678901234567890",
            "9223372036854775808",
            "-9223372036854775809",
            "0.1",
            "1e21",
            "1e20",
            "1e-6",
            "1e-7",
            "5e-324",
            "1.7976931348623157e308",
            "100000000000000000000.5",
            "3.0e0",
            "0.000001",
            "12345678.9",
            "-0",
            "-0.0",
            "-0e1",
        ];
        let escapes = ["\\ud800", "\\uDC00", "\\ud83d\\ude00", "\\\\", "\\u0041", "\\\"", "ud800", "-0"];
        match self.below(7) {
            6 => {
                let text: String = (0..self.below(6)).map(|_| *self.pick(&escapes)).collect();
                format!("{{\"{text}\":[\"{text}\",{}]}}", self.pick(&numbers))
            }
            5 => {
                let float = f64::from_bits(self.next());
                if float.is_finite() { format!("{float:e}") } else { "0".to_owned() }
            }
            0 | 1 => (*self.pick(&numbers)).to_owned(),
            2 => Value::String(self.text()).to_string(),
            3 => format!("[{}, {}]", self.pick(&numbers), Value::String(self.text())),
            _ => format!("{{{}:{}}}", Value::String(self.text()), self.pick(&numbers)),
        }
    }

    pub(crate) fn path_object(&mut self) -> Value {
        json!({
            "a": {"b": [1, 2.5, "x", null, {"c": true, "n": 3}], "c": "text", "d.e": 7},
            "items": [{"k": "x", "v": 1, "f": 1.5}, {"k": "y", "v": 2, "w": [1, 2]}, {"k": "z", "b": false}],
            "n": null, "s": "str", "i": 12345678, "f": 1e21, "empty": [], "t": true,
        })
    }

    pub(crate) fn json_path(&mut self) -> String {
        let parts = [
            ".a",
            ".b",
            ".c",
            ".items",
            ".k",
            ".v",
            ".n",
            ".s",
            ".i",
            ".f",
            "[0]",
            "[1]",
            "[-1]",
            "[9]",
            "[*]",
            "[0:2]",
            "[:]",
            "[::2]",
            "[1:0]",
            "['c']",
            "['d.e']",
            "[0,1]",
            "['a','s']",
            "..",
            ".*",
            "[?(@.k==\"x\")]",
            "[?(@.v>1)]",
            "[?(@.w)]",
            "[?(@.k!='x')]",
            "[?(@.v==1.0)]",
            "[?(@.f<2.0)]",
            "[?(@.b==false)]",
            "[?(@.k=~x)]",
            "[?(@.v)]",
            "[?(@.w[5])]",
            "[]",
            "[-]",
            "[a]",
            ".d\\.e",
            " ",
            "$",
            "@",
            "'q'",
            "\"q\"",
            "5",
            "1.5",
            "true",
            "range",
            "end",
            "#",
            "}",
            "{",
            ",",
            "]",
            "[?(",
            "..k",
            ".empty",
            ".t",
            "[?(@.k>=\"y\")]",
            "[?(1==1)]",
            "[?(@.n==1)]",
            "'a\\'b'",
            "-",
            "1.2.3",
            ".a.b[4].c",
            "\n",
            "[?(@.v=)]",
            "[0:-1]",
            "[-2:]",
            "[?(@.k==\"a)b\")]",
        ];
        let count = 1 + self.below(4);
        let mut path: String = (0..count).map(|_| *self.pick(&parts)).collect();
        // A `range` is for templates with several actions; a column is one action.
        // If a walk over a map in random order ends early, upstream's answer is random too.
        let random = path.contains(".*") && path.contains('[');
        if self.one_in(3) || random || (path.contains("range") && path.contains('}')) {
            path = (*self.pick(&[
                ".items[*].k",
                ".items[?(@.k==\"y\")].v",
                ".a.b[4].n",
                "..v",
                ".a.d\\.e",
                ".items[0:3:2].k",
                ".i",
                ".f",
                ".a",
                ".t",
                ".n",
            ]))
            .to_owned();
        }
        path
    }

    /// A format, and a text that may have it.
    pub(crate) fn formatted(&mut self) -> (&'static str, String) {
        let samples: [(&'static str, &[&str]); 26] = [
            ("bsonobjectid", &["507f1f77bcf86cd799439011", "507F1F77BCF86CD79943901", "xx"]),
            (
                "uri",
                &[
                    "http://a.b/c?d#e",
                    "/x",
                    "x",
                    "http://[::1]:80/",
                    "http://a:b@c/%zz",
                    "mailto:x",
                    "http://a b",
                    "http://a:1:2",
                    "x://a:1:2",
                    "*",
                    ":a",
                    "http://[fe80::1%25en0]/",
                    "http://a%41/",
                    "//x",
                    "?a",
                    "http://a/%41",
                    "1a:b",
                    "http://<x>/",
                    "http://a`b/",
                    "http://é/",
                    "a+b-c.d:x",
                ],
            ),
            (
                "email",
                &[
                    "a@b",
                    "A B <a@b.c>",
                    "\"x y\"@b",
                    "a@",
                    "a..b@c",
                    "a@[1.2.3.4]",
                    "g: a@b;",
                    "g: a@b, c@d;",
                    "a@b (c)",
                    "a@b (c",
                    "(c) a@b",
                    "a b@c",
                    ".a@b",
                    "é@ü",
                    "=?utf-8?q?x?= <a@b>",
                    "=?foo?q?x?= <a@b>",
                    "<a@b>",
                    "a@b,c@d",
                    "\"\"@b",
                    "x <a@b",
                    "a@b.",
                    "a.b.c",
                    "Full Name",
                    "a@[::1]",
                    "a@[x]",
                    " a@b ",
                    "\"a\\\"b\"@c",
                ],
            ),
            (
                "hostname",
                &[
                    "a",
                    "a.b",
                    "a.bc",
                    "a-b.cd",
                    "-a.bc",
                    "a_b",
                    "é.com",
                    "a..bc",
                    "a.b1",
                    "a--b",
                    "a-b-c",
                    "ab-",
                    "😀.com",
                    "1.22",
                    "a-b.c-d.ef",
                    "a.bcd-e",
                ],
            ),
            (
                "ipv4",
                &[
                    "1.2.3.4",
                    "01.2.3.004",
                    "1.2.3",
                    "256.1.1.1",
                    "::ffff:1.2.3.4",
                    "1.2.3.4.5",
                    "",
                    "1.2.3.",
                    "0x1.2.3.4",
                ],
            ),
            (
                "ipv6",
                &[
                    "::1",
                    "1.2.3.4",
                    "::ffff:1.2.3.4",
                    "::ffff:01.2.3.4",
                    "fe80::1%eth0",
                    "1:2:3:4:5:6:7:8",
                    "1:2:3:4:5:6:7::",
                    "12345::",
                    "::",
                    "1::2::3",
                    ":1",
                    "1:2:3:4:5:6:1.2.3.4",
                ],
            ),
            (
                "cidr",
                &[
                    "10.0.0.0/8",
                    "010.0.0.0/08",
                    "::/0",
                    "::/129",
                    "1.2.3.4",
                    "1.2.3.4/33",
                    "1.2.3.4/",
                    "::ffff:01.2.3.4/96",
                    "x/8",
                    "1.2.3.4/-1",
                    "00001::/1",
                ],
            ),
            (
                "mac",
                &[
                    "00:00:5e:00:53:01",
                    "00-00-5e-00-53-01",
                    "0000.5e00.5301",
                    "00005e005301",
                    "00:00",
                    "00:00:5e:00:53:01:02:03",
                    "00:00-5e:00:53:01",
                    "0000.5e00.5301.0203",
                    "00005e0053010203",
                ],
            ),
            (
                "uuid",
                &[
                    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
                    "F47AC10B58CC4372A5670E02B2C3D479",
                    "f47ac10b-58cc-4372-a567-0e02b2c3d47",
                    "f47ac10b-58cc4372-a567-0e02b2c3d479",
                    "f47ac10b58-cc4372a5670e02b2c3d479",
                ],
            ),
            ("uuid3", &["f47ac10b-58cc-3372-a567-0e02b2c3d479", "f47ac10b-58cc-4372-a567-0e02b2c3d479"]),
            (
                "uuid4",
                &[
                    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
                    "f47ac10b-58cc-4372-c567-0e02b2c3d479",
                    "f47ac10b-58cc-4372-B567-0e02b2c3d479",
                ],
            ),
            ("uuid5", &["f47ac10b-58cc-5372-a567-0e02b2c3d479", "f47ac10b-58cc-4372-a567-0e02b2c3d479"]),
            ("isbn", &["0321751043", "978-0321751041", "123"]),
            ("isbn10", &["0321751043", "0-321-75104-3", "080442957X", "0321751044", "032175104X"]),
            ("isbn13", &["978-0321751041", "9780321751041", "9780321751042", "978 0321751041"]),
            (
                "creditcard",
                &[
                    "4111111111111111",
                    "4111-1111-1111-1111",
                    "378282246310005",
                    "6011111111111117",
                    "5105105105105100",
                    "30569309025904",
                    "3530111333300000",
                    "4111111111111112",
                    "x",
                    "213112345678901",
                    "6511111111111116",
                    "180012345678908",
                ],
            ),
            ("ssn", &["123-45-6789", "123 45 6789", "123456789", "123-45-678x", "123-4-56789"]),
            ("hexcolor", &["#fff", "fff", "#12345", "#ABCDEF", "##fff", "#ggg"]),
            (
                "rgbcolor",
                &[
                    "rgb(1,2,3)",
                    "rgb( 255 , 0,99)",
                    "rgb(256,0,0)",
                    "rgb(01,2,3)",
                    "RGB(1,2,3)",
                    "rgb(1,2,3) ",
                    "rgb(199,20,3)",
                ],
            ),
            ("byte", &["aGk=", "aGk", "", "aGkh", "a===", "====", "aG==", "a-b="]),
            ("password", &["x", ""]),
            (
                "date",
                &[
                    "2024-02-29",
                    "2023-02-29",
                    "2024-1-1",
                    "24-01-01",
                    "2024-01-01x",
                    "2024-13-01",
                    "2024-00-10",
                    "0000-01-01",
                    "2024-04-31",
                ],
            ),
            (
                "duration",
                &[
                    "1h",
                    "1h30m",
                    "-1.5h",
                    "1 day",
                    "2 weeks",
                    "x",
                    "",
                    "1",
                    "0",
                    "3 fortnights",
                    "1e3s",
                    ".5s",
                    "9223372036s",
                    "9223372037s",
                    "1 DAY",
                    "10 micros",
                    "1µs",
                    "5 m 3 q",
                    "99999999999999999999 s",
                    "1.h",
                    "+5s",
                    "3hrs ago",
                    "1d2x",
                    "2562048h",
                    "-9223372036854775808ns",
                    "9223372036854775808ns",
                    "1 µs",
                ],
            ),
            (
                "date-time",
                &[
                    "2024-01-02T03:04:05Z",
                    "2024-01-02t03:04:05.123+01:00",
                    "2024-01-02 03:04:05Z",
                    "2024-01-02T24:00:00Z",
                    "2024-01-02T03:04:05",
                    "2024-01-02T03:04:05+99:99",
                    "2024-01-02T03:04:05x1Z",
                    "2024-01-02T03:04:05ZT1",
                    "2024-02-30T00:00:00Z",
                    "2024-01-02T23:59:60Z",
                    "2024-01-02T03:04:051Z",
                ],
            ),
            ("k8s-short-name", &["a", "a-b", "-a", "A", "a.b", ""]),
            ("k8s-long-name", &["a.b", "a..b", "a-.b", "1.2", "a.B"]),
        ];
        let (format, texts) = self.pick(&samples);
        let mut text = (*self.pick(texts)).to_owned();
        if self.one_in(3) {
            self.mutate(&mut text);
        }
        (format, text)
    }

    fn mutate(&mut self, text: &mut String) {
        let mut characters: Vec<char> = text.chars().collect();
        let at = self.below(characters.len() + 1);
        let fresh =
            *self.pick(&['0', '9', 'a', 'z', '-', '.', ':', '/', ' ', 'é', '@', '%', '"', '\n', 'T', '+', '[', '(']);
        match self.below(3) {
            0 => characters.insert(at, fresh),
            1 if at < characters.len() => characters[at] = fresh,
            _ if at < characters.len() => {
                characters.remove(at);
            }
            _ => {}
        }
        *text = characters.into_iter().collect();
    }

    pub(crate) fn pattern(&mut self) -> String {
        let parts = [
            "a",
            "b",
            ".",
            "^",
            "$",
            "\\d",
            "\\w",
            "\\s",
            "\\D",
            "\\W",
            "\\S",
            "\\b",
            "\\B",
            "\\pL{1,253}",
            "[\\p{L}\\p{N}_-]{1,300}",
            "(\\pL{40}|b){2}",
            "[^\\p{Lu}]{0,900}?",
            "[a-c]",
            "[^a]",
            "[]a]",
            "[^]]",
            "[a-]",
            "[[:alpha:]]",
            "[[:^digit:]]",
            "[[:x:]]",
            "[a-\\d]",
            "[\\d-z]",
            "[b-a]",
            "[&&a]",
            "[a[b]",
            "[",
            "]",
            "(",
            ")",
            "(?:",
            "(?i)",
            "(?i:a)",
            "(?s)",
            "(?-s:.)",
            "(?x)",
            "(?P<n>a)",
            "(?<n>a)",
            "(?P<1->a)",
            "(?=a)",
            "(?ii)",
            "(?-)",
            "(?i-)",
            "(?",
            "|",
            "*",
            "+",
            "?",
            "*?",
            "{2}",
            "{1,2}",
            "{,2}",
            "{2,1}",
            "{1001}",
            "{2",
            "{0}",
            "{1,}",
            "\\Q.*\\E",
            "\\Qa",
            "\\x41",
            "\\x{62}",
            "\\x{}",
            "\\x4",
            "\\101",
            "\\0",
            "\\1",
            "\\8",
            "\\_",
            "\\-",
            "\\<",
            "\\pL",
            "\\p{Greek}",
            "\\p{^Lu}",
            "\\PN",
            "\\p{Foo}",
            "\\p{L",
            "\\p",
            "\\z",
            "\\A",
            "\\Z",
            "\\C",
            "\\u0061",
            "\\/",
            "\\",
            "é",
            "\\é",
            "[é-ü]",
            "(?U)a+",
            "\\a\\f\\v",
            "[\\b]",
            "(a{50}){30}",
            "(?m)^",
            "{",
            "}",
            "~~",
            "--",
            "[a--b]",
            "[~~]",
            "\\t",
            "(?i)k",
            "[[:word:]-]",
            "[\\pL\\d]",
            "[^\\W]",
        ];
        let count = 1 + self.below(5);
        (0..count).map(|_| *self.pick(&parts)).collect()
    }

    pub(crate) fn pattern_text(&mut self) -> String {
        let parts = [
            "a", "b", "c", "A", "B", "K", "\u{212a}", "1", "٣", " ", "\n", "é", "[", "]", "-", "&", "{2", ".", "*",
            "_", "~", "\u{b}", "z", "{,2}", "{", "}", "<",
        ];
        (0..self.below(5)).map(|_| *self.pick(&parts)).collect()
    }
}
