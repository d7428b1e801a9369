//! `rdd help` and every `--help`: prints the help of a command.

use crate::{app, context::Context, help, report::Outcome};

/// Prints the help of the command with this path; for an unknown command, warns and prints the help of the root.
pub fn run(context: &Context<'_>, words: Vec<String>) -> Outcome {
    let path: Vec<String> = std::iter::once("rdd".to_owned()).chain(words).collect();
    if help::render(&help::tree(context.is_developer_mode()), &path).is_some() {
        return print(context, &path);
    }
    // cobra warns and shows the root's help, with exit code 0.
    context.record.warn(&format!("Unknown help topic {}", path[1..].join(" ")));
    print(context, &path[..1])
}

/// Prints the help of the command at this path, the program's name included.
pub fn print(context: &Context<'_>, path: &[String]) -> Outcome {
    let tree = help::tree(context.is_developer_mode());
    if let Some(help) = help::render(&tree, path) {
        let text = if context.stdout_is_colorful() { help.ansi().to_string() } else { help.to_string() };
        context.printer.line(text.trim_end())?;
        if path.get(1).is_some_and(|word| word == "set") {
            // The App's properties come from the CRD, which only the API server has.
            let properties = app::help::block(context);
            if !properties.is_empty() {
                context.printer.text(&format!("\n{properties}"))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::User;

    #[test]
    fn help_goes_to_standard_output_and_succeeds() {
        let user = User::new();
        for line in ["", "help", "--help", "svc", "svc nonsense", "help svc start", "completion", "svc start -h"] {
            let ran = user.run(line);
            assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{line}");
            assert!(ran.stdout.contains("Usage: rdd"), "{line}: {}", ran.stdout);
        }
        assert!(user.run("help svc start").stdout.contains("--timeout"));
    }

    #[test]
    fn an_unknown_topic_is_named_and_the_root_is_explained() {
        let ran = User::new().run("help nothing here");
        assert_eq!(ran.code, 0);
        assert_eq!(ran.messages(), ["Unknown help topic nothing here"]);
        assert!(ran.stdout.contains("Usage: rdd"));
    }
}
