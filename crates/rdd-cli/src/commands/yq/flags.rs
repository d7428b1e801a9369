//! Parses the command line of `rdd yq`.

use rdd_yq::{InputFormat, OutputFormat};

use super::{STANDARD_INPUT, format_by_name, same_format};

/// The help text, including the differences from the original yq.
pub(super) const HELP: &str = "\
Reads and changes YAML and JSON with the language of yq v4 (https://github.com/mikefarah/yq/).

A yq on the PATH is used if there is one. What follows is about the built-in one.

Usage:
  rdd yq [eval|eval-all] [FLAGS] EXPRESSION [FILE...]

Without a file, standard input is read; `-` stands for it among files.

Examples:
  rdd yq '.spec.replicas' app.yaml                     print a value
  rdd yq -i '.spec.replicas = 3' app.yaml              change a file in place
  rdd yq '.items[] | select(.kind == \"Pod\").metadata.name' list.yaml
  rdd yq eval-all '. as $d ireduce ({}; . * $d)' base.yaml more.yaml
  rdd yq -n '.name = strenv(USER)'                     make a document
  rdd yq -o json '.' app.yaml                          YAML to JSON

Flags:
  -e, --exit-status             exit with 1 if there is no match, or only null or false
      --expression TEXT         the expression, when it could be taken for a file
      --from-file FILE          read the expression from a file
  -I, --indent NUMBER           indentation of each level (2)
  -i, --inplace                 change the first file instead of printing
  -p, --input-format FORMAT     yaml, json or auto: by the file's name (auto)
  -N, --no-doc                  no --- between documents
  -n, --null-input              read no input
  -o, --output-format FORMAT    yaml, json, props or auto: as the input (auto)
  -P, --prettyPrint             drop quotes and brackets that are not needed
  -r, --unwrapScalar            print single values without quotes (not for JSON)
  -V, --version                 print the version
  -M, -C                        accepted; there are no colours

Differences from the original yq:
  Comments are not kept. `-i` refuses a file that has some, or anchors.
  Aliases and merge keys are replaced by what they stand for.
  No operators for comments, dates, `load`, `system`, `eval`, `match`, `capture`, `envsubst`, `split_doc`, `pivot`,
  and no CSV, TSV, XML, TOML, INI, Lua, HCL or shell. `-s` and `-f` are not supported.
  Install yq v4 for those; `rdd yq` uses it then.
";

/// A parsed command line.
#[derive(Debug)]
pub(super) enum Words {
    Help,
    Version,
    Request(Box<Request>),
}

/// The input of each evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// One evaluation per document.
    Each,
    /// One evaluation of all documents (`eval-all`).
    All,
}

/// The settings of an evaluation.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) mode: Mode,
    pub(super) expression: Option<String>,
    pub(super) expression_file: Option<String>,
    pub(super) files: Vec<String>,
    pub(super) null_input: bool,
    pub(super) in_place: bool,
    pub(super) exit_status: bool,
    pub(super) pretty: bool,
    pub(super) separators: bool,
    pub(super) unwrap_scalars: Option<bool>,
    pub(super) indent: usize,
    input: String,
    output: String,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            mode: Mode::Each,
            expression: None,
            expression_file: None,
            files: Vec::new(),
            null_input: false,
            in_place: false,
            exit_status: false,
            pretty: false,
            separators: true,
            unwrap_scalars: None,
            indent: 2,
            input: "auto".to_owned(),
            output: "auto".to_owned(),
        }
    }
}

impl Request {
    /// Takes the first positional argument as the expression, unless an expression was given by a flag or the argument is a file. This is
    /// yq's rule.
    pub(super) fn take_expression(&mut self, is_file: impl Fn(&str) -> bool) {
        let is_expression = |word: &String| word != STANDARD_INPUT && !is_file(word);
        let has_none = self.expression.is_none() && self.expression_file.is_none();
        // The expression is no longer a file then.
        if has_none && self.files.first().is_some_and(is_expression) {
            self.expression = Some(self.files.remove(0));
        }
    }

    // Rejects combinations of flags with yq's error texts.
    pub(super) fn validate(&self) -> Result<(), String> {
        let first = self.files.first().map(String::as_str);
        if self.in_place && first.is_none_or(|first| first == STANDARD_INPUT) {
            return Err(
                "write in place flag only applicable when giving an expression and at least one file".to_owned()
            );
        }
        if self.null_input && first.is_some() {
            return Err("cannot pass files in when using null-input flag".to_owned());
        }
        Ok(())
    }

    pub(super) fn input_format(&self) -> Result<InputFormat, String> {
        match self.input.as_str() {
            "yaml" | "yml" | "y" => Ok(InputFormat::Yaml),
            "json" | "j" => Ok(InputFormat::Json),
            "" | "auto" | "a" => Ok(self.files.first().map_or(InputFormat::Yaml, |first| format_by_name(first))),
            other => Err(format!("unknown format '{other}' please use [auto|yaml|json] for input")),
        }
    }

    pub(super) fn output_format(&self, input: InputFormat) -> Result<OutputFormat, String> {
        match self.output.as_str() {
            "yaml" | "yml" | "y" => Ok(OutputFormat::Yaml),
            "json" | "j" => Ok(OutputFormat::Json),
            "props" | "properties" | "p" => Ok(OutputFormat::Properties),
            // If the input format was set explicitly, `auto` output means YAML.
            "" | "auto" | "a" if matches!(self.input.as_str(), "" | "auto" | "a") => Ok(same_format(input)),
            "" | "auto" | "a" => Ok(OutputFormat::Yaml),
            other => Err(format!("unknown format '{other}' please use [auto|yaml|json|props] for output")),
        }
    }
}

/// Parses the command line. The error is the text for the user.
pub(super) fn parse(words: Vec<String>) -> Result<Words, String> {
    let mut request = Request::default();
    let mut words = words.into_iter().peekable();
    match words.peek().map(String::as_str) {
        Some("eval" | "e") => {
            words.next();
        }
        Some("eval-all" | "ea") => {
            words.next();
            request.mode = Mode::All;
        }
        Some("help") => return Ok(Words::Help),
        _ => {}
    }
    let mut only_words = false;
    while let Some(word) = words.next() {
        if only_words || word == STANDARD_INPUT || !word.starts_with('-') {
            request.files.push(word);
        } else if word == "--" {
            only_words = true;
        } else if let Some(flag) = word.strip_prefix("--") {
            let (name, value) =
                flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value.to_owned())));
            let short = LONG_FLAGS.iter().find(|(long, _)| *long == name).map(|(_, short)| *short);
            let Some(short) = short else { return Err(format!("unknown flag: --{name}")) };
            if let Some(asked) = apply(&mut request, short, name, value, &mut words)? {
                return Ok(asked);
            }
        } else {
            let mut letters = word[1..].chars();
            // Short flags may be combined, and a value may follow directly: `-iI4`, `-o=json`.
            while let Some(letter) = letters.next() {
                let rest = letters.as_str();
                let value = if TAKES_VALUE.contains(letter) && !rest.is_empty() {
                    let value = rest.strip_prefix('=').unwrap_or(rest).to_owned();
                    letters = "".chars();
                    Some(value)
                } else if let Some(value) = rest.strip_prefix('=') {
                    let value = value.to_owned();
                    letters = "".chars();
                    Some(value)
                } else {
                    None
                };
                if let Some(asked) = apply(&mut request, letter, &letter.to_string(), value, &mut words)? {
                    return Ok(asked);
                }
            }
        }
    }
    Ok(Words::Request(Box::new(request)))
}

/// The letters of flags that take a value.
const TAKES_VALUE: &str = "Ipo1f2s";

/// The short letter of each long flag; digits for flags that have none.
const LONG_FLAGS: &[(&str, char)] = &[
    ("exit-status", 'e'),
    ("expression", '1'),
    ("from-file", '2'),
    ("indent", 'I'),
    ("inplace", 'i'),
    ("input-format", 'p'),
    ("no-doc", 'N'),
    ("null-input", 'n'),
    ("output-format", 'o'),
    ("prettyPrint", 'P'),
    ("unwrapScalar", 'r'),
    ("version", 'V'),
    ("help", 'h'),
    ("no-colors", 'M'),
    ("colors", 'C'),
    ("tojson", 'j'),
    ("verbose", 'v'),
    ("split-exp", 's'),
    ("front-matter", 'f'),
];

fn apply(
    request: &mut Request,
    letter: char,
    name: &str,
    value: Option<String>,
    words: &mut impl Iterator<Item = String>,
) -> Result<Option<Words>, String> {
    let value = match value {
        None if TAKES_VALUE.contains(letter) => {
            // The texts are pflag's.
            let Some(next) = words.next() else {
                return Err(if name.len() == 1 {
                    format!("flag needs an argument: '{name}' in -{name}")
                } else {
                    format!("flag needs an argument: --{name}")
                });
            };
            Some(next)
        }
        value => value,
    };
    let text = value.clone().unwrap_or_default();
    let is_on = || match text.as_str() {
        "" | "true" | "1" | "t" | "T" | "TRUE" | "True" => Ok(true),
        "false" | "0" | "f" | "F" | "FALSE" | "False" => Ok(false),
        other => Err(format!(
            "invalid argument \"{other}\" for \"--{name}\" flag: strconv.ParseBool: parsing \"{other}\": invalid syntax"
        )),
    };
    match letter {
        'e' => request.exit_status = is_on()?,
        'i' => request.in_place = is_on()?,
        'N' => request.separators = !is_on()?,
        'n' => request.null_input = is_on()?,
        'P' => request.pretty = is_on()?,
        'r' => request.unwrap_scalars = Some(is_on()?),
        'j' if is_on()? => "json".clone_into(&mut request.output),
        // Accepted without effect; only the value is checked.
        'M' | 'C' | 'v' | 'j' => {
            is_on()?;
        }
        'p' => request.input = text,
        'o' => request.output = text,
        '1' => request.expression = Some(text),
        '2' => request.expression_file = Some(text),
        'I' => {
            // A limit, since every level of nesting is indented by it.
            let indent = text.parse().ok().filter(|indent| *indent <= 100);
            request.indent = indent.ok_or_else(|| {
                format!("invalid argument \"{text}\" for \"-I, --indent\" flag: a number from 0 to 100")
            })?;
        }
        'V' => return Ok(Some(Words::Version)),
        'h' => return Ok(Some(Words::Help)),
        's' | 'f' => return Err(format!("'{name}' is not supported by the yq in rdd; install yq v4 for it")),
        other => return Err(format!("unknown shorthand flag: '{other}' in -{name}")),
    }
    Ok(None)
}
