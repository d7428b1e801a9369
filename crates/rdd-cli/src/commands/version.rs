//! `rdd version` and `rdd --version`: print the version.

use crate::{BuildInfo, context::Context, report::Outcome};

/// Prints the version: `true` for the version alone, `raw` for all build information; any other format is printed as it is.
pub fn print(context: &Context<'_>, format: &str) -> Outcome {
    Ok(context.printer.line(render(context.build, format))?)
}

fn render(build: &BuildInfo, format: &str) -> String {
    match format {
        "true" => build.version.to_owned(),
        // Scripts read these labels, so they are the original's; the values are those of the Rust toolchain.
        "raw" => format!(
            "Version: {}\nGitCommit: {}\nBuildDate: {}\nGoVersion: {}\nCompiler: {}\nPlatform: {}",
            build.version, build.git_commit, build.build_date, build.toolchain, build.compiler, build.platform
        ),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::User;

    #[test]
    fn the_version_is_printed_in_the_asked_format() {
        let user = User::new();
        let raw = "Version: v1.2.3\nGitCommit: 0123456\nBuildDate: 2026-01-02T03:04:05Z\nGoVersion: rustc 1.95.0\n\
                   Compiler: rustc\nPlatform: linux/amd64\n";
        for (line, expected) in [
            ("version", "v1.2.3\n"),
            ("version and more", "v1.2.3\n"),
            ("--version", "v1.2.3\n"),
            ("--version=true", "v1.2.3\n"),
            ("--version=raw", raw),
            ("--version=v9.9", "v9.9\n"),
            ("--instance=x version", "v1.2.3\n"),
        ] {
            let ran = user.run(line);
            assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, expected, ""), "{line}");
        }
        assert_eq!(std::fs::read_dir(user.home.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn a_bad_level_or_format_is_refused_even_here() {
        let mut user = User::new();
        let ran = user.run("version --log-level=loud");
        assert_eq!((ran.code, ran.messages()), (1, vec!["not a valid logrus Level: \"loud\"".to_owned()]));
        let ran = user.run("version --log-format=xml");
        assert_eq!((ran.code, ran.messages()), (1, vec!["invalid log format: \"xml\"".to_owned()]));
        user.variables.push(("RDD_LOG_LEVEL", "loud".to_owned()));
        assert_eq!(user.run("version").code, 1);
        assert_eq!(user.run("version --log-level=info").code, 0, "the flag beats the variable");
    }

    #[test]
    fn a_version_needs_no_home() {
        let mut user = User::new();
        user.variables.push(("HOME", String::new()));
        assert_eq!(user.run("version").code, 0);
        let ran = user.run("svc paths");
        assert_eq!(ran.code, 1);
        assert!(ran.messages()[0].contains("HOME is not set"), "{:?}", ran.messages());
    }
}
