//! `apply`: changes objects to match files and keeps fields that others set.

use std::time::{Duration, Instant};

use http::Method;
use rdd_meta::{go_json, metadata::Metadata};
use serde_json::{Value, json};

use crate::{
    api::Call,
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Kind},
    merge::{migrate, shape_of, three_way, three_way_strategic},
    print::Printer,
    selection::{Info, Wanted, fetch, select},
    verbs::create::require_files,
    write::{DRY_RUN, DryRun, LAST_APPLIED, Manner, VALIDATE, annotate_configuration, field_validation, printer},
};

/// The flags of `apply`.
pub(crate) const FLAGS: &[Flag] = &[
    DRY_RUN,
    VALIDATE,
    Flag::switch("server-side"),
    Flag::switch("force-conflicts"),
    Flag::of("field-manager", Kind::Text, "kubectl-client-side-apply"),
    Flag::value("selector").short('l'),
    Flag::switch("prune"),
    Flag::of("prune-allowlist", Kind::Array, ""),
    Flag::value("applyset"),
    Flag::switch("all"),
    Flag::of("overwrite", Kind::Bool, "true"),
    Flag::of("openapi-patch", Kind::Bool, "true"),
    Flag::value("subresource"),
    Flag::switch("force"),
    Flag::of("cascade", Kind::Optional("background"), "background"),
    Flag::of("grace-period", Kind::Number, "-1"),
    Flag::of("timeout", Kind::Duration, "0s"),
    Flag::switch("wait"),
    Flag::switch("record"),
];

/// How many times a patch is retried after a conflict.
const RETRIES: u32 = 5;
/// The delay between retries after the first few.
const BACKOFF: Duration = Duration::from_secs(1);

struct Apply<'a> {
    manner: Manner<'a>,
    server_side: bool,
    force_conflicts: bool,
    force: bool,
    subresource: &'a str,
}

/// Runs `apply`.
pub(crate) fn run(ctl: &Ctl<'_>) -> Result<()> {
    let flags = &ctl.flags;
    if !flags.args.is_empty() {
        return Err(ctl.usage(&format!("Unexpected args: [{}]", flags.args.join(" "))));
    }
    let apply = Apply::of(ctl)?;
    apply.check(ctl)?;
    let selector = Some(flags.text("selector").trim().to_owned()).filter(|text| !text.is_empty());
    let validate = apply.manner.field_validation != "Ignore";
    let selected = select(ctl, &Wanted { label_selector: selector, keep_going: true, validate, ..Wanted::default() })?;
    if selected.items.is_empty() {
        return Err(Error::text("no objects passed to apply"));
    }
    let (mut infos, mut errors) = (Vec::new(), Vec::new());
    for item in selected.items {
        match item {
            Ok(info) => infos.push(info),
            Err(error) => errors.push(error),
        }
    }
    let mut printer = printer(ctl, apply.manner.dry_run, "")?;
    // Formats for programs print all objects at the end, several of them as a list.
    let at_the_end = !printer.format().is_human() && flags.text("output") != "name";
    let mut applied = Vec::new();
    for mut info in infos {
        match apply.one(ctl, &mut info) {
            Ok(operation) if !at_the_end => {
                printer.operation = apply.manner.dry_run.worded(operation);
                ctl.print(&printer.print(info.object())?)?;
            }
            Ok(_) => applied.extend(info.object),
            Err(error) => errors.push(error),
        }
    }
    Error::aggregate(errors)?;
    if at_the_end { print_all(ctl, &mut printer, applied) } else { Ok(()) }
}

fn print_all(ctl: &Ctl<'_>, printer: &mut Printer, mut objects: Vec<Value>) -> Result<()> {
    let object = match objects.len() {
        1 => objects.remove(0),
        _ => json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects }),
    };
    ctl.print(&printer.print(&object)?)
}

impl<'a> Apply<'a> {
    fn of(ctl: &'a Ctl<'_>) -> Result<Self> {
        let flags = &ctl.flags;
        let dry_run = DryRun::of(ctl)?;
        require_files(ctl)?;
        let server_side = flags.is_on("server-side");
        let field_manager = match server_side && !flags.is_given("field-manager") {
            true => "kubectl",
            false => flags.text("field-manager"),
        };
        let manner = Manner { dry_run, field_manager, field_validation: field_validation(ctl)? };
        Ok(Self {
            manner,
            server_side,
            force_conflicts: flags.is_on("force-conflicts"),
            force: flags.is_on("force"),
            subresource: flags.text("subresource"),
        })
    }

    fn check(&self, ctl: &Ctl<'_>) -> Result<()> {
        let dry_run = self.manner.dry_run;
        let wrong = if self.force_conflicts && !self.server_side {
            "--force-conflicts only works with --server-side"
        } else if dry_run == DryRun::Client && self.server_side {
            "--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)"
        } else if self.server_side && self.force {
            "--force cannot be used with --server-side"
        } else if dry_run == DryRun::Server && self.force {
            "--dry-run=server cannot be used with --force"
        } else if ctl.flags.is_on("all") && !ctl.flags.text("selector").is_empty() {
            "cannot set --all and --selector at the same time"
        } else if ctl.flags.is_on("prune") || ctl.flags.is_given("applyset") {
            return Err(super::elsewhere("apply --prune"));
        } else if !self.subresource.is_empty() && !self.server_side {
            "--subresource can only be specified for --server-side"
        } else {
            return Ok(());
        };
        Err(Error::text(wrong))
    }

    /// Applies one object and returns the operation for the result line.
    fn one(&self, ctl: &Ctl<'_>, info: &mut Info) -> Result<&'static str> {
        let generated = Metadata::of(info.object()).generate_name();
        if info.name.is_empty() && !generated.is_empty() {
            return Err(Error::text(format!("from {generated}: cannot use generate name with apply")));
        }
        if self.server_side { self.at_the_server(ctl, info) } else { self.here(ctl, info) }
    }

    fn at_the_server(&self, ctl: &Ctl<'_>, info: &mut Info) -> Result<&'static str> {
        let text = go_json::to_string(info.object());
        let patched =
            self.manner.patch(ctl, info, self.subresource, "application/apply-patch+yaml", &text, self.force_conflicts);
        let patched = patched.map_err(|error| match error {
            error if error.is_reason("Conflict") => Error::text(format!("{error}{CONFLICT_ADVICE}")),
            error => error,
        })?;
        info.object = Some(patched);
        if self.manner.field_manager == "kubectl" {
            self.migrate(ctl, info, &text);
        }
        warn_if_deleting(ctl, info);
        Ok("serverside-applied")
    }

    /// Transfers fields of client-side apply to the server-side applying manager. A failure is only a warning; the next apply
    /// retries.
    fn migrate(&self, ctl: &Ctl<'_>, info: &mut Info, applied: &str) {
        if let Err(error) = self.keep_annotation(ctl, info) {
            return ctl.tell(&format!(
                "Warning: failed to migrate {LAST_APPLIED} for Server-Side Apply. This is non-fatal and will be retried next \
                 time you apply. Error: {error}\n"
            ));
        }
        match self.migrate_owners(ctl, info) {
            Ok(false) => {}
            Err(error) => ctl.tell(&format!(
                "Warning: server rejected managed fields migration to Server-Side Apply. This is non-fatal and will be \
                 retried next time you apply. Error: {error}\n"
            )),
            Ok(true) => {
                let again =
                    self.manner.patch(ctl, info, "", "application/apply-patch+yaml", applied, self.force_conflicts);
                match again {
                    Ok(object) => info.object = Some(object),
                    Err(error) => ctl.tell(&format!(
                        "Warning: failed to re-apply configuration after performing Server-Side Apply migration. This is \
                         non-fatal and will be retried next time you apply. Error: {error}\n"
                    )),
                }
            }
        }
    }

    /// Gives the last-applied annotation its own field manager, so that it stays for other clients that use it.
    fn keep_annotation(&self, ctl: &Ctl<'_>, info: &mut Info) -> Result<()> {
        let metadata = Metadata::of(info.object());
        let Some(annotation) = metadata.annotation(LAST_APPLIED) else { return Ok(()) };
        // An applying manager owns the annotation already.
        if !migrate::owners_of_annotation(metadata.managed_fields(), "Apply").is_empty() {
            return Ok(());
        }
        let mapping = info.mapping();
        let mut only = json!({
            "apiVersion": mapping.group_version(),
            "kind": mapping.kind,
            "metadata": { "name": metadata.name(), "annotations": { LAST_APPLIED: annotation } },
        });
        if mapping.namespaced {
            only["metadata"]["namespace"] = metadata.namespace().into();
        }
        let manner = Manner { field_manager: "kubectl-last-applied", ..self.manner };
        let text = go_json::to_string(&only);
        let kept = manner.patch(ctl, info, "", "application/apply-patch+yaml", &text, false)?;
        info.object = Some(kept);
        Ok(())
    }

    /// Transfers the field ownership; returns whether anything changed.
    fn migrate_owners(&self, ctl: &Ctl<'_>, info: &mut Info) -> Result<bool> {
        let owners = migrate::owners_of_annotation(Metadata::of(info.object()).managed_fields(), "Update");
        let mut tries = 0;
        loop {
            let Some(patch) = migrate::patch(info.object(), &owners, self.manner.field_manager) else {
                return Ok(false);
            };
            let text = go_json::to_string(&patch);
            match self.manner.patch(ctl, info, "", "application/json-patch+json", &text, false) {
                Ok(object) => {
                    info.object = Some(object);
                    return Ok(true);
                }
                Err(error) if !error.is_reason("Conflict") || tries >= RETRIES => return Err(error),
                Err(_) => tries += 1,
            }
            info.object = Some(fetch(ctl, &Wanted::default(), info)?);
        }
    }

    fn here(&self, ctl: &Ctl<'_>, info: &mut Info) -> Result<&'static str> {
        let mut wanted = info.object().clone();
        annotate_configuration(&mut wanted);
        let live = match fetch(ctl, &Wanted::default(), info) {
            Ok(live) => live,
            Err(error) if error.is_not_found() => return self.create(ctl, info),
            Err(error) => {
                let doing = format!("retrieving current configuration of:\n{}\nfrom server for:", described(info));
                return Err(error.when(&doing, &info.source));
            }
        };
        if self.manner.dry_run == DryRun::Client {
            info.object = Some(live);
            return Ok("configured");
        }
        if Metadata::of(&live).annotation(LAST_APPLIED).is_none() {
            ctl.tell(&format!(
                "Warning: resource {} is missing the {LAST_APPLIED} annotation which is required by kubectl apply. kubectl \
                 apply should only be used on resources created declaratively by either kubectl create --save-config or \
                 kubectl apply. The missing annotation will be patched automatically.\n",
                info.object_name()
            ));
        }
        let (patch, patched) = self.patch(ctl, info, &wanted, live)?;
        info.object = Some(patched);
        warn_if_deleting(ctl, info);
        Ok(if patch == "{}" { "unchanged" } else { "configured" })
    }

    fn create(&self, ctl: &Ctl<'_>, info: &mut Info) -> Result<&'static str> {
        let object = info.object.get_or_insert(Value::Null);
        annotate_configuration(object);
        prune_nulls(object);
        if self.manner.dry_run != DryRun::Client {
            let created = self.manner.create(ctl, info).map_err(|error| error.when("creating", &info.source))?;
            info.object = Some(created);
        }
        Ok("created")
    }

    /// Computes and sends the patch; returns both. Retries a few times after a conflict.
    fn patch(&self, ctl: &Ctl<'_>, info: &Info, wanted: &Value, mut live: Value) -> Result<(String, Value)> {
        let mut tries = 0;
        loop {
            let (media_type, patch) = patch_for(info, wanted, &live)?;
            if patch == "{}" {
                return Ok((patch, live));
            }
            let error = match self.manner.patch(ctl, info, "", media_type, &patch, false) {
                Ok(patched) => return Ok((patch, patched)),
                Err(error) => error,
            };
            if !error.is_reason("Conflict") || tries >= RETRIES {
                let failed = self.give_up(ctl, info, wanted, &live, error);
                let doing = format!("applying patch:\n{patch}\nto:\n{}\nfor:", described(info));
                return failed.map(|created| (patch, created)).map_err(|error| error.when(&doing, &info.source));
            }
            if tries > 0 {
                ctl.api.pause(BACKOFF);
            }
            tries += 1;
            live = fetch(ctl, &Wanted::default(), info)?;
        }
    }

    /// With `--force`, deletes and recreates an object that cannot be patched.
    fn give_up(&self, ctl: &Ctl<'_>, info: &Info, wanted: &Value, live: &Value, error: Error) -> Result<Value> {
        let replaceable = error.is_reason("Conflict") || error.is_reason("Invalid");
        if !self.force || !replaceable {
            return Err(error.when("patching", &info.source));
        }
        let body = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background" });
        ctl.call(&Call::new(Method::DELETE, info.path()).json(&body))?;
        let timeout = ctl.flags.duration("timeout");
        let bound = ctl.after(if timeout.is_zero() { Duration::from_secs(168 * 3600) } else { timeout });
        while !fetch(ctl, &Wanted::default(), info).is_err_and(|error| error.is_not_found()) {
            if Instant::now() >= bound {
                return Err(Error::text("timed out waiting for the condition"));
            }
            ctl.api.pause(BACKOFF);
        }
        let made = |object: &Value| self.manner.create(ctl, &Info { object: Some(object.clone()), ..info.clone() });
        // The object is deleted by now: if the new one is refused, restore the old one.
        made(wanted).or_else(|error| match made(live) {
            Ok(restored) => Ok(restored),
            Err(worse) => Err(Error::text(format!(
                "An error occurred force-replacing the existing object with the newly provided one:\n\n{error}.\n\n\
                 Additionally, an error occurred attempting to restore the original object:\n\n{worse}"
            ))),
        })
    }
}

/// The media type and text of the patch: strategic for kinds with a known schema.
fn patch_for(info: &Info, wanted: &Value, live: &Value) -> Result<(&'static str, String)> {
    let applied = Metadata::of(live).annotation(LAST_APPLIED).unwrap_or("{}");
    let applied: Value = serde_json::from_str(applied).map_err(|error| {
        Error::text(format!("the annotation {LAST_APPLIED} of {} is not JSON: {error}", info.object_name()))
    })?;
    let mapping = info.mapping();
    match shape_of(&mapping.group_version(), &mapping.kind) {
        Some(shape) => {
            let patch = three_way_strategic(&applied, wanted, live, &shape);
            Ok(("application/strategic-merge-patch+json", go_json::to_string(&patch)))
        }
        None => {
            let patch = three_way(&applied, wanted, live);
            Ok(("application/merge-patch+json", go_json::to_string(&patch)))
        }
    }
}

/// Describes the object in error messages.
fn described(info: &Info) -> String {
    let mapping = info.mapping();
    format!(
        "Resource: \"{}\", GroupVersionKind: \"{}/{}, Kind={}\"\nName: \"{}\", Namespace: \"{}\"",
        mapping.resource_string(),
        mapping.group,
        mapping.version,
        mapping.kind,
        info.name,
        info.namespace
    )
}

fn warn_if_deleting(ctl: &Ctl<'_>, info: &Info) {
    let metadata = Metadata::of(info.object());
    if metadata.is_terminating() {
        ctl.tell(&format!(
            "Warning: Detected changes to resource {} which is currently being deleted.\n",
            metadata.name()
        ));
    }
}

/// Removes nulls, which have no meaning in a new object.
fn prune_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(prune_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(prune_nulls),
        _ => {}
    }
}

/// kubectl's advice about conflicts, verbatim, because people search for these sentences.
const CONFLICT_ADVICE: &str = "
Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'll become the manager if the other manager(s)
  stop managing the field (remove it from their configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts";
