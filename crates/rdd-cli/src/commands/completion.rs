//! `rdd completion SHELL`: prints a completion script.

use crate::{args::Shell, context::Context, help, report::Outcome};

/// Prints the completion script for a shell. Hidden commands are included in developer mode.
pub fn run(context: &Context<'_>, shell: Shell) -> Outcome {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Fish => clap_complete::Shell::Fish,
        Shell::Powershell => clap_complete::Shell::PowerShell,
        Shell::Zsh => clap_complete::Shell::Zsh,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut help::tree(context.is_developer_mode()), "rdd", &mut script);
    Ok(context.printer.bytes(&script)?)
}

#[cfg(test)]
mod tests {
    use crate::testing::User;

    #[test]
    fn every_shell_gets_a_script_that_knows_the_commands() {
        for shell in ["bash", "zsh", "fish", "powershell"] {
            let ran = User::new().run(&format!("completion {shell}"));
            assert_eq!(ran.code, 0, "{shell}: {}", ran.stderr);
            assert!(ran.stdout.contains("backup") && ran.stdout.contains("timeout"), "{shell}");
        }
    }
}
