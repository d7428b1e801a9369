//! Reports the longest files and functions; none is an error.

use super::File;

const SHOWN: usize = 10;

/// The lines of the report.
pub(super) fn report(files: &[File]) -> Vec<String> {
    let rust: Vec<&File> = files.iter().filter(|file| file.path.ends_with(".rs")).collect();
    let mut by_file: Vec<(usize, String)> =
        rust.iter().map(|file| (file.text.lines().count(), file.path.clone())).collect();
    let in_file = |file: &&File| {
        let path = file.path.clone();
        functions(&file.text).into_iter().map(move |(length, line, name)| (length, format!("{path}:{line} {name}")))
    };
    let mut by_function: Vec<(usize, String)> = rust.iter().flat_map(in_file).collect();
    let mut lines = vec!["longest files:".to_owned()];
    lines.extend(top(&mut by_file));
    lines.push("longest functions:".to_owned());
    lines.extend(top(&mut by_function));
    lines
}

fn top(entries: &mut [(usize, String)]) -> Vec<String> {
    entries.sort_by(|a, b| b.cmp(a));
    entries.iter().take(SHOWN).map(|(length, name)| format!("{length:>6} {name}")).collect()
}

/// The length, first line and name of each function. It relies on rustfmt: a function ends at the first `}` with the indentation of its
/// `fn`.
fn functions(text: &str) -> Vec<(usize, usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        let Some(name) = function_name(body) else { continue };
        let close = format!("{}}}", &line[..line.len() - body.len()]);
        let end = if body.ends_with('}') || body.ends_with(';') {
            Some(start)
        } else {
            (start..lines.len()).find(|at| lines[*at] == close)
        };
        if let Some(end) = end {
            found.push((end - start + 1, start + 1, name.to_owned()));
        }
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line;
    if let Some(after) = rest.strip_prefix("pub") {
        rest = after
            .strip_prefix('(')
            .and_then(|inside| inside.split_once(')'))
            .map_or(after, |(_, after)| after)
            .trim_start();
    }
    for word in ["const ", "async ", "unsafe ", "extern \"C\" "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    Some(&name[..name.find(['(', '<']).unwrap_or(name.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_their_fn_to_their_brace() {
        let text = "//! A.\npub(crate) async fn outer<T>() {\n    if a {\n    }\n    fn inner() {}\n}\nfn last(\n    a: u8,\n) {\n}\n";
        let expected = [(5, 2, "outer"), (1, 5, "inner"), (4, 7, "last")];
        assert_eq!(functions(text), expected.map(|(length, line, name)| (length, line, name.to_owned())));
    }

    #[test]
    fn the_longest_comes_first_and_no_more_than_ten() {
        let file = |count: usize| File { path: format!("{count}.rs"), text: "//\n".repeat(count) };
        let lines = report(&(1..20).map(file).collect::<Vec<_>>());
        assert_eq!((lines[1].trim(), lines.len()), ("19 19.rs", 12));
    }
}
