//! The events section of a description.

use rdd_meta::{metadata::Metadata, time::Timestamp};
use serde_json::Value;

use super::{Page, text_at};
use crate::{api::Call, context::Ctl, error::Result};

/// Lists all events about an object, over all pages.
pub(super) fn find(ctl: &Ctl<'_>, object: &Value) -> Result<Vec<Value>> {
    let metadata = Metadata::of(object);
    let (name, namespace) = (metadata.name(), metadata.namespace());
    let kind = object["kind"].as_str().unwrap_or_default();
    let mut selector =
        format!("involvedObject.name={name},involvedObject.namespace={namespace},involvedObject.kind={kind}");
    if !metadata.uid().is_empty() {
        selector.push_str(&format!(",involvedObject.uid={}", metadata.uid()));
    }
    let path = match namespace {
        "" => "/api/v1/events".to_owned(),
        namespace => format!("/api/v1/namespaces/{namespace}/events"),
    };
    let (mut events, mut token) = (Vec::new(), String::new());
    loop {
        let limit = ctl.flags.number("chunk-size");
        let call = Call::get(path.as_str())
            .query("fieldSelector", selector.as_str())
            .query("limit", if limit > 0 { limit.to_string() } else { String::new() })
            .query("continue", token.as_str());
        let mut page = ctl.call(&call)?;
        events.extend(page["items"].as_array_mut().map(std::mem::take).unwrap_or_default());
        token = text_at(&page, &["metadata", "continue"]).to_owned();
        if token.is_empty() {
            events.sort_by_key(|event| time(event, "lastTimestamp"));
            return Ok(events);
        }
    }
}

fn time(event: &Value, field: &str) -> Option<Timestamp> {
    let text = event[field].as_str()?;
    Timestamp::parse_time(text).or_else(|_| Timestamp::parse_micro_time(text)).ok()
}

pub(super) fn write(ctl: &Ctl<'_>, events: &[Value], page: &mut Page) {
    if events.is_empty() {
        return page.write(0, "Events:\t<none>\n");
    }
    page.flush();
    page.write(0, "Events:\n  Type\tReason\tAge\tFrom\tMessage\n");
    page.write(1, "----\t------\t----\t----\t-------\n");
    for event in events {
        let source = Some(text_at(event, &["source", "component"])).filter(|source| !source.is_empty());
        let source = source.unwrap_or_else(|| text_at(event, &["reportingComponent"]));
        let mut message = text_at(event, &["message"]).trim().to_owned();
        let field = text_at(event, &["involvedObject", "fieldPath"]);
        if !field.is_empty() {
            message = format!("{field}: {message}");
        }
        let (kind, reason) = (text_at(event, &["type"]), text_at(event, &["reason"]));
        page.write(1, &format!("{kind}\t{reason}\t{}\t{source}\t{message}\n", interval(ctl, event)));
    }
}

fn interval(ctl: &Ctl<'_>, event: &Value) -> String {
    let now = ctl.now();
    let age = |time: Option<Timestamp>| time.map_or_else(|| "<unknown>".to_owned(), |time| time.age(now));
    let first = age(time(event, "eventTime").or_else(|| time(event, "firstTimestamp")));
    if let Some(count) = event["series"]["count"].as_i64() {
        let last = age(time(&event["series"], "lastObservedTime"));
        return format!("{last} (x{count} over {first})");
    }
    match event["count"].as_i64() {
        Some(count) if count > 1 => format!("{} (x{count} over {first})", age(time(event, "lastTimestamp"))),
        _ => first,
    }
}
