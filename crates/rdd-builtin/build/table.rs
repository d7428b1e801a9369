//! Parses `types.txt`; a line that it does not understand fails the build.

use std::collections::BTreeMap;

/// The parsed table.
#[derive(Debug)]
pub(crate) struct Table {
    /// The packages with the prefix of their definition names and the apiVersion of their kinds.
    pub(crate) packages: BTreeMap<String, Package>,
    /// The allowed values of each enum type.
    pub(crate) enums: BTreeMap<String, Vec<String>>,
    /// The structs in order.
    pub(crate) structs: Vec<Struct>,
}

#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) prefix: String,
    pub(crate) api_version: String,
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) package: String,
    pub(crate) name: String,
    pub(crate) atomic: bool,
    pub(crate) kind: bool,
    pub(crate) everywhere: bool,
    /// The fields in Go's order.
    pub(crate) fields: Vec<Field>,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) omit_empty: bool,
    pub(crate) omit_zero: bool,
    pub(crate) via: String,
    /// The list type and the keys of an associative list.
    pub(crate) list: Option<(String, Vec<String>)>,
    /// The patch strategy and the merge key.
    pub(crate) patch: Option<(String, Option<String>)>,
    pub(crate) atomic: bool,
    pub(crate) default: Option<String>,
    pub(crate) optional: bool,
    /// The protobuf field numbers: those of the embedded structs that lead to the field, then its own.
    pub(crate) numbers: Vec<u32>,
    /// The Go name.
    pub(crate) go_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    /// `bool`, `int32`, `int64`, `float64`, `string`, `bytes`.
    Scalar(String),
    /// A type with custom JSON decoding.
    Special(String),
    /// Package and name of a struct.
    Struct(String, String),
    Named(String, Box<Type>),
    Pointer(Box<Type>),
    List(Box<Type>),
    Map(Box<Type>),
}

impl Table {
    pub(crate) fn parse(text: &str) -> Self {
        let mut table = Self { packages: BTreeMap::new(), enums: BTreeMap::new(), structs: Vec::new() };
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Some(alias) = words[0].strip_prefix('@') {
                let package = Package { prefix: words[1].to_owned(), api_version: words[2].to_owned() };
                table.packages.insert(alias.to_owned(), package);
            } else if let Some(name) = words[0].strip_prefix('=') {
                let values = serde_json::from_str(words[1]).expect("values are a list of JSON without spaces");
                table.enums.insert(name.to_owned(), values);
            } else if line.starts_with(' ') {
                let last = table.structs.last_mut().expect("a field follows its struct");
                last.fields.push(Field::parse(&words));
            } else {
                table.structs.push(Struct::parse(&words));
            }
        }
        table
    }

    /// The definition name of a struct.
    pub(crate) fn definition(&self, package: &str, name: &str) -> String {
        format!("{}.{name}", self.packages.get(package).unwrap_or_else(|| panic!("no package {package}")).prefix)
    }

    pub(crate) fn index(&self, package: &str, name: &str) -> usize {
        let found = self.structs.iter().position(|found| found.package == package && found.name == name);
        found.unwrap_or_else(|| panic!("no struct {package}.{name}"))
    }
}

impl Struct {
    fn parse(words: &[&str]) -> Self {
        let (package, name) = words[0].split_once('.').expect("a struct is package.Name");
        let has = |word: &str| words[1..].contains(&word);
        assert!(
            words[1..].iter().all(|word| ["typed", "map=atomic", "kind", "everywhere"].contains(word)),
            "{words:?}"
        );
        let type_meta = ["kind string omitempty via=TypeMeta", "apiVersion string omitempty via=TypeMeta"];
        let fields = type_meta.iter().filter(|_| has("typed"));
        let fields = fields.map(|line| Field::parse(&line.split(' ').collect::<Vec<_>>())).collect();
        Self {
            package: package.to_owned(),
            name: name.to_owned(),
            atomic: has("map=atomic"),
            kind: has("kind"),
            everywhere: has("everywhere"),
            fields,
        }
    }
}

impl Field {
    fn parse(words: &[&str]) -> Self {
        let mut field = Self {
            name: words[0].to_owned(),
            kind: Type::parse(words[1]),
            omit_empty: false,
            omit_zero: false,
            via: String::new(),
            list: None,
            patch: None,
            atomic: false,
            default: None,
            optional: false,
            numbers: Vec::new(),
            go_name: words[0][..1].to_uppercase() + &words[0][1..],
        };
        for word in &words[2..] {
            match word.split_once('=') {
                None if word.starts_with('#') => field.place(&word[1..]),
                None => match *word {
                    "omitempty" => field.omit_empty = true,
                    "omitzero" => field.omit_zero = true,
                    "optional" => field.optional = true,
                    _ => panic!("{words:?}"),
                },
                Some(("via", path)) => field.via = path.to_owned(),
                Some(("list", rest)) => {
                    let (kind, keys) = with_arguments(rest);
                    field.list = Some((kind, keys));
                }
                Some(("patch", rest)) => {
                    let (strategy, keys) = with_arguments(rest);
                    field.patch = Some((strategy, keys.into_iter().next()));
                }
                Some(("map", "atomic")) => field.atomic = true,
                Some(("default", json)) => field.default = Some(json.to_owned()),
                Some(_) => panic!("{words:?}"),
            }
        }
        field
    }

    /// Parses `2.1` or `2.1:GoName`.
    fn place(&mut self, text: &str) {
        let (numbers, go_name) = text.split_once(':').unwrap_or((text, &self.go_name));
        self.go_name = go_name.to_owned();
        self.numbers = numbers.split('.').map(|number| number.parse().expect("fields have numbers")).collect();
        let embedded = self.via.split('.').filter(|name| !name.is_empty()).count();
        assert_eq!(self.numbers.len(), embedded + 1, "{self:?}");
    }
}

/// Splits `map(a,b)` into `map` and its arguments.
fn with_arguments(text: &str) -> (String, Vec<String>) {
    match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        None => (text.to_owned(), Vec::new()),
        Some((word, arguments)) => (word.to_owned(), arguments.split(',').map(str::to_owned).collect()),
    }
}

impl Type {
    fn parse(text: &str) -> Self {
        if let Some(rest) = text.strip_prefix('*') {
            return Self::Pointer(Box::new(Self::parse(rest)));
        }
        if let Some(rest) = text.strip_prefix("[]") {
            return Self::List(Box::new(Self::parse(rest)));
        }
        if let Some(rest) = text.strip_prefix("map[string]") {
            return Self::Map(Box::new(Self::parse(rest)));
        }
        if let Some((name, underlying)) = text.split_once('=') {
            return Self::Named(name.to_owned(), Box::new(Self::parse(underlying)));
        }
        if let Some((package, name)) = text.split_once('.') {
            return Self::Struct(package.to_owned(), name.to_owned());
        }
        let special = text.starts_with(|first: char| first.is_ascii_uppercase());
        if special { Self::Special(text.to_owned()) } else { Self::Scalar(text.to_owned()) }
    }
}
