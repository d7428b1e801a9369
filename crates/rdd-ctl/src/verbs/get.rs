//! `get`: prints objects as tables, JSON, YAML, names or with templates.

use std::ops::ControlFlow;

use rdd_meta::go_text::quote;
use serde_json::{Value, json};

use crate::{
    api::Call,
    context::Ctl,
    error::{Error, Result},
    flags::{Flag, Kind},
    print::{
        Format, Printer,
        table::{Look, TablePrinter},
        tabs::Tabs,
    },
    selection::{Info, Selected, Wanted, select},
    sort::sort_by,
    source,
};

/// The flags of `get`.
pub(crate) const FLAGS: &[Flag] = &[
    Flag::value("raw"),
    Flag::switch("watch").short('w'),
    Flag::switch("watch-only"),
    Flag::switch("output-watch-events"),
    Flag::switch("ignore-not-found"),
    Flag::value("field-selector"),
    Flag::switch("all-namespaces").short('A'),
    Flag::of("server-print", Kind::Bool, "true"),
    Flag::of("chunk-size", Kind::Number, "500"),
    Flag::value("selector").short('l'),
    Flag::value("subresource"),
    Flag::of("label-columns", Kind::List, "").short('L'),
    Flag::switch("no-headers"),
    Flag::switch("show-kind"),
    Flag::switch("show-labels"),
    Flag::value("sort-by"),
];

/// Runs `get`.
pub(crate) fn run(ctl: &Ctl<'_>) -> Result<()> {
    let flags = &ctl.flags;
    check(ctl)?;
    if !flags.text("raw").is_empty() {
        return raw(ctl);
    }
    let format = Format::of(flags, true);
    let is_human = matches!(flags.text("output"), "" | "wide") && flags.text("template").is_empty();
    let wanted = Wanted {
        args: flags.args.clone(),
        label_selector: some(flags.text("selector").trim()),
        field_selector: some(flags.text("field-selector").trim()),
        all_namespaces: flags.is_on("all-namespaces"),
        type_means_all: true,
        chunk: if flags.text("sort-by").is_empty() || is_watch(ctl) { flags.number("chunk-size") } else { 0 },
        subresource: flags.text("subresource").to_owned(),
        table: is_human && flags.is_on("server-print"),
        whole_objects: !flags.text("sort-by").is_empty(),
        latest: true,
        require_object: true,
        ..Wanted::default()
    };
    if is_watch(ctl) {
        return watch(ctl, wanted, format);
    }
    let mut selected = select(ctl, &Wanted { keep_going: true, ..wanted.clone() })?;
    if flags.is_on("ignore-not-found") {
        selected.items.retain(|item| !item.as_ref().is_err_and(Error::is_not_found));
    }
    if is_human { tables(ctl, selected, &format?) } else { generic(ctl, selected, format) }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn is_watch(ctl: &Ctl<'_>) -> bool {
    ctl.flags.is_on("watch") || ctl.flags.is_on("watch-only")
}

fn check(ctl: &Ctl<'_>) -> Result<()> {
    let flags = &ctl.flags;
    let output = flags.text("output");
    if !flags.text("raw").is_empty() {
        if !flags.args.is_empty() {
            return Err(Error::text("arguments may not be passed when --raw is specified"));
        }
        if is_watch(ctl) || !flags.text("selector").is_empty() {
            return Err(Error::text(
                "--raw may not be specified with other flags that filter the server request or alter the output",
            ));
        }
        if !output.is_empty() {
            return Err(Error::text("--raw and --output are mutually exclusive"));
        }
    } else if is_watch(ctl) {
        if !flags.text("sort-by").is_empty() {
            ctl.tell(if flags.is_on("watch") {
                "warning: --watch requested, --sort-by will be ignored for watch events received\n"
            } else {
                "warning: --watch-only requested, --sort-by will be ignored\n"
            });
        }
    } else if flags.args.is_empty() && !source::is_given(ctl) {
        ctl.tell(
            "You must specify the type of resource to get. Use \"kubectl api-resources\" for a complete list of \
             supported resources.\n\n",
        );
        return Err(ctl.usage(
            "Required resource not specified.\nUse \"kubectl explain <resource>\" for a detailed description of that \
             resource (e.g. kubectl explain pods).",
        ));
    }
    if flags.is_on("show-labels") && !matches!(output, "" | "wide") {
        return Err(Error::text(format!("--show-labels option cannot be used with {output} printer")));
    }
    if flags.is_on("output-watch-events") && !is_watch(ctl) {
        return Err(Error::text("--output-watch-events option can only be used with --watch or --watch-only"));
    }
    Ok(())
}

fn raw(ctl: &Ctl<'_>) -> Result<()> {
    let path = ctl.flags.text("raw");
    if !path.starts_with('/') {
        let words = format!("--raw must be a valid URL path: parse {}: invalid URI for request", quote(path));
        return Err(Error::text(words));
    }
    let mut call = Call::get(path);
    call.is_raw = true;
    call.accept = "application/json, */*";
    let answered = ctl.api.bytes(&call);
    ctl.pass_warnings();
    ctl.print(&String::from_utf8_lossy(&answered?))
}

fn look(ctl: &Ctl<'_>, wide: bool, with_namespace: bool, kind: Option<String>) -> Look {
    let flags = &ctl.flags;
    Look {
        wide,
        no_headers: flags.is_on("no-headers"),
        show_labels: flags.is_on("show-labels"),
        label_columns: flags.list("label-columns").to_vec(),
        with_namespace,
        kind,
    }
}

fn tables(ctl: &Ctl<'_>, selected: Selected, format: &Format) -> Result<()> {
    let wide = matches!(format, Format::Human { wide: true });
    let (mut infos, mut errors) = (Vec::new(), Vec::new());
    for item in selected.items {
        match item {
            Ok(info) => infos.push(info),
            Err(error) => errors.push(error),
        }
    }
    let path = ctl.flags.text("sort-by");
    if !path.is_empty() {
        sort_tables(&mut infos, path)?;
    }
    let with_kind = ctl.flags.is_on("show-kind") || infos.iter().any(|info| !is_same_kind(info, &infos[0]));
    let all_namespaces = ctl.flags.is_on("all-namespaces");
    let mut text = String::new();
    let mut tabs = Tabs::for_tables();
    let mut last: Option<(&Info, TablePrinter)> = None;
    for info in &infos {
        if last.as_ref().is_none_or(|(before, _)| before.mapping != info.mapping) {
            separate(&mut text, &tabs.flush(), ctl.flags.is_on("no-headers"));
            tabs.forget_widths();
            let with_namespace = all_namespaces && info.mapping().namespaced;
            let kind = with_kind.then(|| info.mapping().kind_string());
            last = Some((info, TablePrinter::new(look(ctl, wide, with_namespace, kind))));
        }
        if let Some((_, printer)) = &mut last {
            printer.print(info.object(), None, ctl.now(), &mut tabs);
        }
    }
    separate(&mut text, &tabs.flush(), ctl.flags.is_on("no-headers"));
    ctl.print(&text)?;
    if text.is_empty() && !ctl.flags.is_on("ignore-not-found") && errors.is_empty() {
        if !all_namespaces && infos.iter().all(|info| info.mapping().namespaced) {
            ctl.tell(&format!("No resources found in {} namespace.\n", ctl.namespace()));
        } else {
            ctl.tell("No resources found\n");
        }
    }
    Error::aggregate(errors)
}

/// Adds an empty line between tables of different kinds.
fn separate(text: &mut String, next: &str, no_headers: bool) {
    if !text.is_empty() && !next.is_empty() && !no_headers {
        text.push('\n');
    }
    text.push_str(next);
}

fn is_same_kind(one: &Info, other: &Info) -> bool {
    let kind =
        |info: &Info| (info.mapping().group.clone(), info.mapping().version.clone(), info.mapping().kind.clone());
    kind(one) == kind(other)
}

fn sort_tables(infos: &mut Vec<Info>, path: &str) -> Result<()> {
    if infos.iter().all(|info| info.object()["kind"] != "Table") {
        return if infos.len() > 1 { sort_by(infos, path, Info::object) } else { Ok(()) };
    }
    for info in infos {
        if let Some(rows) = info.object.as_mut().and_then(|table| table["rows"].as_array_mut()) {
            sort_by(rows, path, |row| &row["object"])?;
        }
    }
    Ok(())
}

fn generic(ctl: &Ctl<'_>, selected: Selected, format: Result<Format>) -> Result<()> {
    let single = selected.single_item_implied;
    let (mut objects, mut errors) = (Vec::new(), Vec::new());
    for item in selected.items {
        match item {
            Ok(info) => objects.extend(info.object),
            Err(error) => errors.push(error),
        }
    }
    if single && !errors.is_empty() {
        return Error::aggregate(errors);
    }
    if objects.is_empty() && ctl.flags.is_on("ignore-not-found") {
        return Error::aggregate(errors);
    }
    let mut printer = Printer::new(format?, &ctl.flags, "");
    let object = if single && objects.len() == 1 { objects.remove(0) } else { list(ctl, objects)? };
    match printer.print(&object) {
        Ok(text) => ctl.print(&text)?,
        Err(error) => errors.push(error),
    }
    Error::aggregate(errors)
}

fn list(ctl: &Ctl<'_>, mut objects: Vec<Value>) -> Result<Value> {
    let path = ctl.flags.text("sort-by");
    if !path.is_empty() && !objects.is_empty() {
        sort_by(&mut objects, path, |object| object)?;
    }
    Ok(json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "" }, "items": objects }))
}

/// Prints the objects and then their changes, until the user interrupts or the server ends the watch.
fn watch(ctl: &Ctl<'_>, wanted: Wanted, format: Result<Format>) -> Result<()> {
    let wanted = Wanted { keep_lists: true, single_type: true, ..wanted };
    let selected = select(ctl, &wanted)?;
    let single = selected.single_item_implied;
    let mut infos = Vec::new();
    for item in selected.items {
        match item {
            Ok(info) => infos.push(info),
            Err(error) if error.is_not_found() && ctl.flags.is_on("ignore-not-found") => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    let Some(first) = infos.first() else { return Ok(()) };
    if selected.targets_single_items && infos.len() > 1 {
        return Err(Error::text("you may only watch a single resource or type of resource at a time"));
    }
    let mut shown = Shown::new(ctl, &wanted, first, format?);
    shown.enabled = !ctl.flags.is_on("watch-only");
    for info in &infos {
        let single = std::slice::from_ref(info.object());
        for object in info.object()["items"].as_array().map_or(single, Vec::as_slice) {
            shown.print("ADDED", object)?;
        }
    }
    shown.flush()?;
    // With a list, watch from its version on; with one object, skip the first event, which was printed already.
    shown.enabled = !single;
    let version = match single {
        true => "0",
        false => first.object()["metadata"]["resourceVersion"].as_str().unwrap_or("0"),
    };
    let call = watch_call(&wanted, first, single, version);
    ctl.api.watch(&call, None, &mut |event| {
        shown.print(&event.kind, &event.object)?;
        shown.flush()?;
        shown.enabled = true;
        Ok(ControlFlow::Continue(()))
    })?;
    ctl.pass_warnings();
    Ok(())
}

fn watch_call(wanted: &Wanted, info: &Info, single: bool, version: &str) -> Call {
    let mut call =
        Call::get(info.mapping().path(&info.namespace, "")).query("watch", "true").query("resourceVersion", version);
    if single {
        call = call.query("fieldSelector", format!("metadata.name={}", info.name));
    } else {
        call = call
            .query("labelSelector", wanted.label_selector.as_deref().unwrap_or_default())
            .query("fieldSelector", wanted.field_selector.as_deref().unwrap_or_default());
    }
    if wanted.table {
        call.accept = crate::selection::TABLE;
    }
    call
}

/// The output state of a watch.
struct Shown<'a, 'b> {
    ctl: &'a Ctl<'b>,
    tables: TablePrinter,
    documents: Printer,
    tabs: Tabs,
    with_events: bool,
    enabled: bool,
}

impl<'a, 'b> Shown<'a, 'b> {
    fn new(ctl: &'a Ctl<'b>, wanted: &Wanted, info: &Info, format: Format) -> Self {
        let wide = matches!(format, Format::Human { wide: true });
        let kind = ctl.flags.is_on("show-kind").then(|| info.mapping().kind_string());
        Self {
            ctl,
            tables: TablePrinter::new(look(ctl, wide, wanted.all_namespaces, kind)),
            documents: Printer::new(format, &ctl.flags, ""),
            tabs: Tabs::for_tables(),
            with_events: ctl.flags.is_on("output-watch-events"),
            enabled: true,
        }
    }

    fn print(&mut self, kind: &str, object: &Value) -> Result<()> {
        if self.documents.format().is_human() {
            let mut object = object.clone();
            if !self.enabled {
                // Keep the column definitions for later events.
                object["rows"] = json!([]);
            }
            if self.enabled || object["kind"] == "Table" {
                let event = self.with_events.then_some(kind);
                self.tables.print(&object, event, self.ctl.now(), &mut self.tabs);
            }
            return Ok(());
        }
        if !self.enabled {
            return Ok(());
        }
        let text = match self.with_events {
            true => self.documents.print_event(kind, object)?,
            false => self.documents.print(object)?,
        };
        self.ctl.print(&text)
    }

    fn flush(&mut self) -> Result<()> {
        let text = self.tabs.flush();
        if text.is_empty() { Ok(()) } else { self.ctl.print(&text) }
    }
}
