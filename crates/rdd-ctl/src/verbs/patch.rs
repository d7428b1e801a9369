//! `patch`: sends a JSON, merge or strategic merge patch.

use std::fs;

use rdd_meta::go_text::quote;
use rdd_patch::{json as json_patch, merge, strategic};
use serde_json::Value;

use crate::{
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Kind},
    merge::shape_of,
    print::go_io,
    selection::{Info, Wanted, select},
    write::{DRY_RUN, DryRun, Manner, printer},
};

/// The flags of `patch`.
pub(crate) const FLAGS: &[Flag] = &[
    DRY_RUN,
    Flag::value("patch").short('p'),
    Flag::value("patch-file"),
    Flag::of("type", Kind::Text, "strategic"),
    Flag::switch("local"),
    Flag::of("field-manager", Kind::Text, "kubectl-patch"),
    Flag::value("subresource"),
    Flag::switch("record"),
];

/// Runs `patch`.
pub(crate) fn run(ctl: &Ctl<'_>) -> Result<()> {
    let dry_run = DryRun::of(ctl)?;
    check(ctl, dry_run)?;
    let media_type = media_type(ctl.flags.text("type"))?;
    let patch = read_patch(ctl)?;
    let wanted = Wanted {
        args: ctl.flags.args.clone(),
        subresource: ctl.flags.text("subresource").to_owned(),
        require_object: true,
        keep_going: true,
        local: ctl.flags.is_on("local"),
        ..Wanted::default()
    };
    let selected = select(ctl, &wanted)?;
    let manner = Manner { dry_run, field_manager: ctl.flags.text("field-manager"), field_validation: "" };
    let (mut errors, mut count) = (Vec::new(), 0);
    let mut printer = printer(ctl, dry_run, "")?;
    for item in selected.items {
        let done = item.and_then(|info| {
            count += 1;
            let patched = if wanted.local || dry_run == DryRun::Client {
                patch_here(&info, media_type, &patch)?
            } else {
                manner
                    .patch(ctl, &info, &wanted.subresource, media_type, &patch, false)
                    .map_err(|error| unsupported(error, media_type, &info))?
            };
            let operation = if patched == *info.object() { "patched (no change)" } else { "patched" };
            // kubectl does not mark the operation as a dry run here.
            printer.operation = operation.to_owned();
            ctl.print(&printer.print(&patched)?)
        });
        errors.extend(done.err());
    }
    Error::aggregate(errors)?;
    if count == 0 { Err(Error::text("no objects passed to patch")) } else { Ok(()) }
}

fn unsupported(error: Error, media_type: &str, info: &Info) -> Error {
    if !error.is_reason("UnsupportedMediaType") {
        return error;
    }
    let mapping = info.mapping();
    let kind = format!("{}/{}, Kind={}", mapping.group, mapping.version, mapping.kind);
    Error::text(format!("{media_type} is not supported by {kind}: {error}"))
}

fn check(ctl: &Ctl<'_>, dry_run: DryRun) -> Result<()> {
    let (patch, file) = (ctl.flags.text("patch"), ctl.flags.text("patch-file"));
    let local = ctl.flags.is_on("local");
    let wrong = match (patch, file) {
        ("", "") => "must specify --patch or --patch-file containing the contents of the patch",
        (patch, file) if !patch.is_empty() && !file.is_empty() => "cannot specify --patch and --patch-file together",
        _ if local && !ctl.flags.args.is_empty() => "cannot specify --local and server resources",
        _ if local && dry_run == DryRun::Server => {
            "cannot specify --local and --dry-run=server - did you mean --dry-run=client?"
        }
        _ => return Ok(()),
    };
    Err(Error::text(wrong))
}

fn media_type(said: &str) -> Result<&'static str> {
    match said.to_lowercase().as_str() {
        "" | "strategic" => Ok("application/strategic-merge-patch+json"),
        "merge" => Ok("application/merge-patch+json"),
        "json" => Ok("application/json-patch+json"),
        _ => Err(Error::text(format!("--type must be one of [json merge strategic], not {}", quote(said)))),
    }
}

/// The patch as JSON text.
fn read_patch(ctl: &Ctl<'_>) -> Result<String> {
    let (given, file) = (ctl.flags.text("patch"), ctl.flags.text("patch-file"));
    let text = match file {
        "" => given.to_owned(),
        file => fs::read_to_string(file)
            .map_err(|error| Error::text(format!("unable to read patch file: {}", go_io("open", file, &error))))?,
    };
    if text.trim_start().starts_with('{') {
        // Text that looks like JSON is sent unchanged; whatever applies it validates it.
        return Ok(text);
    }
    let read = rdd_yaml::read(&text);
    let read = read.map_err(|error| Error::text(format!("unable to parse {}: {error}", quote(given))))?;
    Ok(rdd_meta::go_json::to_string(&read.value))
}

/// Applies the patch locally, for a client-side dry run.
fn patch_here(info: &Info, media_type: &str, patch: &str) -> Result<Value> {
    let patch = &serde_json::from_str::<Value>(patch).map_err(|error| Error::text(error.to_string()))?;
    let object = info.object();
    let text = |error: &dyn std::fmt::Display| Error::text(error.to_string());
    match media_type {
        "application/json-patch+json" => {
            let patch = json_patch::Patch::decode(patch).map_err(|error| text(&error))?;
            patch.apply(object).map_err(|error| text(&error))
        }
        "application/merge-patch+json" => merge::apply(object, patch).map_err(|error| text(&error)),
        _ => {
            let (version, kind) =
                (object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default());
            let Some(shape) = shape_of(version, kind) else {
                let (group, version) = crate::discovery::split_group_version(version);
                return Err(Error::text(format!(
                    "strategic merge patch is not supported for {group}/{version}, Kind={kind} locally, try --type merge"
                )));
            };
            strategic::apply(object, patch, &shape).map_err(|error| text(&error))
        }
    }
}
