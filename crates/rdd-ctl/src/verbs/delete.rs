//! `delete`: deletes objects by name, selector or file, and waits until they are gone.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::{
    api::Call,
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Kind},
    selection::{Info, Wanted, select},
    verbs::wait::{self, Deadline},
    write::{DRY_RUN, DryRun},
};

/// The flags of `delete`.
pub(crate) const FLAGS: &[Flag] = &[
    DRY_RUN,
    Flag::value("selector").short('l'),
    Flag::value("field-selector"),
    Flag::switch("all"),
    Flag::switch("all-namespaces").short('A'),
    Flag::switch("force"),
    Flag::of("cascade", Kind::Optional("background"), "background"),
    Flag::switch("now"),
    Flag::of("grace-period", Kind::Number, "-1"),
    Flag::of("timeout", Kind::Duration, "0s"),
    Flag::switch("ignore-not-found"),
    Flag::of("wait", Kind::Bool, "true"),
    Flag::value("output").short('o'),
    Flag::value("raw"),
    Flag::switch("interactive").short('i'),
];

/// The timeout when the user sets none.
const WEEK: Duration = Duration::from_secs(168 * 3600);

struct Options {
    dry_run: DryRun,
    cascade: &'static str,
    grace_period: i64,
    ignore_not_found: bool,
}

/// Runs `delete`.
pub(crate) fn run(ctl: &Ctl<'_>) -> Result<()> {
    let options = Options::of(ctl)?;
    let flags = &ctl.flags;
    let some = |flag: &str| Some(flags.text(flag).trim().to_owned()).filter(|text| !text.is_empty());
    if flags.is_given("raw") {
        return Err(super::elsewhere("delete --raw"));
    }
    let wanted = Wanted {
        args: flags.args.clone(),
        label_selector: some("selector"),
        field_selector: some("field-selector"),
        all: flags.is_on("all"),
        all_namespaces: flags.is_on("all-namespaces"),
        keep_going: true,
        ..Wanted::default()
    };
    check_selectors(ctl)?;
    let selected = select(ctl, &wanted)?;
    check(ctl, &options)?;
    let mut errors = Vec::new();
    let mut infos = Vec::new();
    for item in selected.items {
        match item {
            Ok(info) => infos.push(info),
            Err(error) => errors.push(error),
        }
    }
    if flags.is_on("interactive") && !confirmed(ctl, &infos)? {
        return Ok(());
    }
    let (deleted, found) = delete_all(ctl, &options, infos, &mut errors)?;
    if options.ignore_not_found {
        errors.retain(|error| !error.is_not_found());
    }
    Error::aggregate(errors)?;
    if found == 0 {
        return ctl.print("No resources found\n");
    }
    if !flags.is_on("wait") || options.dry_run != DryRun::None {
        return Ok(());
    }
    await_gone(ctl, &deleted)
}

fn await_gone(ctl: &Ctl<'_>, deleted: &[(Info, String)]) -> Result<()> {
    let timeout = ctl.flags.duration("timeout");
    let bound = if timeout.is_zero() { WEEK } else { timeout };
    let deadline = Deadline { at: ctl.after(bound), is_zero: false };
    for (info, uid) in deleted {
        let gone = wait::until_deleted(ctl, info, Some(uid.as_str()).filter(|uid| !uid.is_empty()), deadline);
        match gone {
            Err(error) if error.is_reason("Forbidden") || error.is_reason("MethodNotAllowed") => {}
            gone => gone?,
        }
    }
    Ok(())
}

/// Deletes the objects; returns the deleted ones with their uids, and how many were found.
fn delete_all(
    ctl: &Ctl<'_>,
    options: &Options,
    infos: Vec<Info>,
    errors: &mut Vec<Error>,
) -> Result<(Vec<(Info, String)>, usize)> {
    let mut warn = ctl.is_namespace_explicit() && !ctl.flags.is_on("all-namespaces");
    let (mut deleted, mut found) = (Vec::new(), 0);
    for info in infos {
        found += 1;
        if warn && !info.mapping().namespaced {
            ctl.tell("Warning: deleting cluster-scoped resources, not scoped to the provided namespace\n");
            warn = false;
        }
        if options.dry_run == DryRun::Client {
            ctl.print(&options.line(ctl, &info))?;
            continue;
        }
        match options.delete(ctl, &info) {
            Ok(answer) => {
                ctl.print(&options.line(ctl, &info))?;
                // With the uid, the wait does not mistake a recreated object for this one.
                let uid = [&answer["details"]["uid"], &answer["metadata"]["uid"]].into_iter().find_map(Value::as_str);
                let uid = uid.unwrap_or_default().to_owned();
                deleted.push((info, uid));
            }
            Err(error) if options.ignore_not_found && error.is_not_found() => {}
            Err(error) => errors.push(error.when("deleting", &info.source)),
        }
    }
    Ok((deleted, found))
}

impl Options {
    fn of(ctl: &Ctl<'_>) -> Result<Self> {
        let flags = &ctl.flags;
        let cascade = cascade(ctl)?;
        let selects =
            flags.is_on("all") || !flags.text("selector").is_empty() || !flags.text("field-selector").is_empty();
        let mut grace_period = flags.number("grace-period");
        if flags.is_on("now") {
            if grace_period != -1 {
                return Err(Error::text("--now and --grace-period cannot be specified together"));
            }
            grace_period = 1;
        }
        if grace_period == 0 && !flags.is_on("force") {
            // Like kubectl: immediate deletion requires --force.
            grace_period = 1;
        }
        if flags.is_on("force") && grace_period < 0 {
            grace_period = 0;
        }
        let ignore_not_found =
            if flags.is_given("ignore-not-found") { flags.is_on("ignore-not-found") } else { selects };
        Ok(Self { dry_run: DryRun::of(ctl)?, cascade, grace_period, ignore_not_found })
    }

    fn delete(&self, ctl: &Ctl<'_>, info: &Info) -> Result<Value> {
        let mut body = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": self.cascade });
        if self.grace_period >= 0 {
            body["gracePeriodSeconds"] = self.grace_period.into();
        }
        if self.dry_run == DryRun::Server {
            body["dryRun"] = json!(["All"]);
        }
        ctl.call(&Call::new(Method::DELETE, info.path()).json(&body))
    }

    fn line(&self, ctl: &Ctl<'_>, info: &Info) -> String {
        let kind = info.mapping().kind_string();
        if ctl.flags.text("output") == "name" {
            return format!("{kind}/{}\n", info.name);
        }
        let mut operation = if self.grace_period == 0 { "force deleted" } else { "deleted" }.to_owned();
        if info.mapping().namespaced {
            operation = format!("{operation} from {} namespace", info.namespace);
        }
        format!("{kind} \"{}\" {}\n", info.name, self.dry_run.worded(&operation))
    }
}

fn cascade(ctl: &Ctl<'_>) -> Result<&'static str> {
    let said = ctl.flags.text("cascade");
    let instead = match said {
        "background" => return Ok("Background"),
        "foreground" => return Ok("Foreground"),
        "orphan" => return Ok("Orphan"),
        "1" | "t" | "T" | "true" | "TRUE" | "True" => "background",
        "0" | "f" | "F" | "false" | "FALSE" | "False" => "orphan",
        said => {
            return Err(Error::text(format!(
                "invalid cascade value ({said}). Must be \"background\", \"foreground\", or \"orphan\""
            )));
        }
    };
    ctl.tell(&format!(
        "warning: --cascade={said} is deprecated (boolean value) and can be replaced with --cascade={instead}.\n"
    ));
    Ok(if instead == "orphan" { "Orphan" } else { "Background" })
}

fn check_selectors(ctl: &Ctl<'_>) -> Result<()> {
    let flags = &ctl.flags;
    if !matches!(flags.text("output"), "" | "name") {
        let output = flags.text("output");
        // kubectl reports errors about the selection first.
        if flags.is_on("all") && !flags.text("selector").is_empty() {
            return Ok(());
        }
        return Err(Error::text(format!("unexpected -o output mode: {output}. We only support '-o name'")));
    }
    Ok(())
}

fn check(ctl: &Ctl<'_>, options: &Options) -> Result<()> {
    if ctl.flags.is_on("force") && options.grace_period == 0 {
        ctl.tell(
            "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. \
             The resource may continue to run on the cluster indefinitely.\n",
        );
    } else if ctl.flags.is_on("force") && options.grace_period > 0 {
        return Err(Error::text("--force and --grace-period greater than 0 cannot be specified together"));
    }
    Ok(())
}

fn confirmed(ctl: &Ctl<'_>, infos: &[Info]) -> Result<bool> {
    if infos.is_empty() {
        ctl.print("No resources found\n")?;
        return Ok(false);
    }
    ctl.print(&format!("You are about to delete the following {} resource(s):\n", infos.len()))?;
    for info in infos {
        ctl.print(&format!("{}/{}\n", info.mapping().kind_string(), info.name))?;
    }
    ctl.print("Do you want to continue? (y/N): ")?;
    let answer = ctl.read_line()?;
    if answer.trim().eq_ignore_ascii_case("y") {
        return Ok(true);
    }
    ctl.print("deletion is cancelled\n")?;
    Ok(false)
}
