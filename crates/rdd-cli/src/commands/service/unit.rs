//! `rdd service unit`: prints a systemd unit or a launchd agent.

use rdd_instance::Platform;

use crate::{
    args::Unit,
    report::{Failure, Outcome},
    service::{ControlPlane, args_file},
};

/// The values that a unit contains.
#[derive(Debug)]
struct Facts<'a> {
    name: &'a str,
    executable: &'a str,
    arguments: &'a [String],
    log_dir: Option<&'a str>,
    logs: [&'a str; 2],
}

/// Prints a unit that starts this instance at login; the commands to install it go to standard error.
pub fn run(plane: &ControlPlane<'_>, args: &Unit) -> Outcome {
    let executable = plane.context.executable()?;
    // A service manager starts programs in another folder.
    let executable = std::path::absolute(&executable)?;
    let stored = args_file::read(&plane.paths().args_file)?.unwrap_or_default();
    let instance = plane.instance.name.as_str();
    let arguments: Vec<String> = [format!("--instance={instance}"), "service".to_owned(), "serve".to_owned()]
        .into_iter()
        .chain(stored)
        .collect();
    let log_dir = match &plane.context.environment.log_dir {
        Some(log_dir) => Some(text(&std::path::absolute(log_dir)?)?),
        None => None,
    };
    let name = plane.name();
    let facts = Facts {
        name: &name,
        executable: &text(&executable)?,
        arguments: &arguments,
        log_dir: log_dir.as_deref(),
        logs: [&text(&plane.paths().stdout_log)?, &text(&plane.paths().stderr_log)?],
    };
    // launchd is the default on macOS, systemd everywhere else.
    let launchd = args.launchd.unwrap_or(Platform::current() == Platform::MacOs);
    let unit = if launchd { launchd_agent(&facts)? } else { systemd_unit(&facts) };
    plane.context.printer.text(&unit)?;
    for step in if launchd { launchd_steps(&name, instance) } else { systemd_steps(&name, instance) } {
        plane.record().hint(&step);
    }
    Ok(())
}

fn text(path: &std::path::Path) -> Outcome<String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Failure::message(format!("{} is not valid UTF-8 and cannot be put into a unit", path.display())))
}

fn systemd_unit(facts: &Facts<'_>) -> String {
    let mut command = systemd_word(facts.executable);
    for argument in facts.arguments {
        // systemd expands `$` in arguments, but not in the program's path.
        command.push_str(&format!(" {}", systemd_word(&argument.replace('$', "$$"))));
    }
    let environment = facts.log_dir.map_or_else(String::new, |log_dir| {
        format!("Environment={}\n", systemd_word(&format!("RDD_LOG_DIR={log_dir}")))
    });
    format!(
        "[Unit]\n\
         Description=Control plane {name}\n\
         \n\
         [Service]\n\
         Type=notify\n\
         {environment}ExecStart={command}\n\
         KillSignal=SIGINT\n\
         KillMode=mixed\n\
         TimeoutStopSec=5min\n\
         Restart=on-failure\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        name = facts.name
    )
}

/// Quotes one word of a systemd setting if needed, and escapes systemd's specifiers (`%`).
fn systemd_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut word = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => word.extend(['\\', c]),
            '%' => word.push_str("%%"),
            '\n' => word.push_str("\\n"),
            c if c.is_ascii_control() => word.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => word.push(c),
        }
    }
    word.push('"');
    word
}

fn systemd_steps(name: &str, instance: &str) -> [String; 2] {
    [
        format!("to install it: rdd --instance={instance} service unit > ~/.config/systemd/user/{name}.service"),
        format!("to start it now and at login: systemctl --user enable --now {name}.service"),
    ]
}

fn launchd_agent(facts: &Facts<'_>) -> Outcome<String> {
    let string = |text: &str| Outcome::Ok(format!("<string>{}</string>", xml(text)?));
    let mut words = String::new();
    for word in std::iter::once(facts.executable).chain(facts.arguments.iter().map(String::as_str)) {
        words.push_str(&format!("\t\t{}\n", string(word)?));
    }
    let environment = match facts.log_dir {
        Some(log_dir) => format!(
            "\t<key>EnvironmentVariables</key>\n\t<dict>\n\t\t<key>RDD_LOG_DIR</key>\n\t\t{}\n\t</dict>\n",
            string(log_dir)?
        ),
        None => String::new(),
    };
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n\
         <dict>\n\
         \t<key>Label</key>\n\
         \t{label}\n\
         \t<key>ProgramArguments</key>\n\
         \t<array>\n\
         {words}\
         \t</array>\n\
         {environment}\
         \t<key>RunAtLoad</key>\n\
         \t<true/>\n\
         \t<key>StandardOutPath</key>\n\
         \t{stdout}\n\
         \t<key>StandardErrorPath</key>\n\
         \t{stderr}\n\
         </dict>\n\
         </plist>\n",
        label = string(&label(facts.name))?,
        stdout = string(facts.logs[0])?,
        stderr = string(facts.logs[1])?,
    ))
}

fn label(name: &str) -> String {
    format!("io.rancherdesktop.{name}")
}

// Escapes text for XML; XML 1.0 cannot represent control characters.
fn xml(text: &str) -> Outcome<String> {
    if let Some(c) = text.chars().find(|c| c.is_control()) {
        return Err(Failure::message(format!("{text:?} has the character {c:?}, which a launchd agent cannot hold")));
    }
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Ok(escaped.replace('"', "&quot;").replace('\'', "&apos;"))
}

fn launchd_steps(name: &str, instance: &str) -> [String; 2] {
    let file = format!("~/Library/LaunchAgents/{}.plist", label(name));
    [
        format!("to install it: rdd --instance={instance} service unit --launchd > {file}"),
        format!("to start it now and at login: launchctl bootstrap gui/$(id -u) {file}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::User;

    fn arguments() -> Vec<String> {
        ["--instance=2", "service", "serve", "--controllers", "a&b $x 5%"].map(str::to_owned).into()
    }

    fn facts<'a>(arguments: &'a [String], log_dir: Option<&'a str>) -> Facts<'a> {
        Facts {
            name: "rancher-desktop-2",
            executable: "/opt/my \"tools\" $5/100%/rdd",
            arguments,
            log_dir,
            logs: ["/l/<out>.log", "/l/err.log"],
        }
    }

    #[test]
    fn a_systemd_unit_has_every_word_quoted() {
        assert_eq!(
            systemd_unit(&facts(&arguments(), Some("/my logs"))),
            r#"[Unit]
Description=Control plane rancher-desktop-2

[Service]
Type=notify
Environment="RDD_LOG_DIR=/my logs"
ExecStart="/opt/my \"tools\" $5/100%%/rdd" --instance=2 service serve --controllers "a&b $$x 5%%"
KillSignal=SIGINT
KillMode=mixed
TimeoutStopSec=5min
Restart=on-failure

[Install]
WantedBy=default.target
"#
        );
        assert!(!systemd_unit(&facts(&[], None)).contains("Environment"));
        assert_eq!(systemd_word("a\\b\nc\u{1}"), r#""a\\b\nc\x01""#);
    }

    #[test]
    fn a_launchd_agent_has_every_value_escaped() {
        let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>io.rancherdesktop.rancher-desktop-2</string>
	<key>ProgramArguments</key>
	<array>
		<string>/opt/my &quot;tools&quot; $5/100%/rdd</string>
		<string>--instance=2</string>
		<string>service</string>
		<string>serve</string>
		<string>--controllers</string>
		<string>a&amp;b $x 5%</string>
	</array>
	<key>EnvironmentVariables</key>
	<dict>
		<key>RDD_LOG_DIR</key>
		<string>/my logs</string>
	</dict>
	<key>RunAtLoad</key>
	<true/>
	<key>StandardOutPath</key>
	<string>/l/&lt;out&gt;.log</string>
	<key>StandardErrorPath</key>
	<string>/l/err.log</string>
</dict>
</plist>
"#;
        assert_eq!(launchd_agent(&facts(&arguments(), Some("/my logs"))).unwrap(), expected);
        assert!(launchd_agent(&facts(&[], Some("/a\nb"))).is_err());
    }

    #[test]
    fn the_unit_goes_to_standard_output_and_the_steps_do_not() {
        let user = User::new();
        user.run("--instance=x svc create --controllers=app");
        let ran = user.run("--instance=x svc unit --launchd=false");
        assert_eq!(ran.code, 0);
        let command = "ExecStart=/nonexistent/rdd --instance=x service serve --secure-port";
        assert!(ran.stdout.contains(command), "{}", ran.stdout);
        assert!(ran.stdout.contains("--controllers app"), "{}", ran.stdout);
        assert_eq!(ran.stderr.lines().filter(|line| line.starts_with("hint: ")).count(), 2, "{}", ran.stderr);
        assert!(user.run("svc unit --launchd").stdout.contains("<plist"));
    }
}
