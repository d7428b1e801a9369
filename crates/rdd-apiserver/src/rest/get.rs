//! `get`: one object, or the part of it that a subresource is.

use std::time::Duration;

use http::{StatusCode, request::Parts};
use rdd_meta::{Status, options::GetOptions, query::Query};
use rdd_store::Revision;

use super::{Api, Target, scale, selection};
use crate::{
    offload,
    registry::{Part, form},
    represent::{self, Wire},
    respond::Response,
};

/// How long a revision that has not happened is waited for, as upstream does.
pub(super) const REVISION_WAIT: Duration = Duration::from_secs(3);

/// Answers with the object, with at least everything that was committed when the request came, or that `resourceVersion`
/// asks for.
pub async fn get(api: &Api, target: &Target, head: &Parts) -> Result<Response, Status> {
    let representation = represent::negotiate(api, target, head)?;
    let query = Query::parse(head.uri.query().unwrap_or_default());
    refuse_export(&query)?;
    fresh(api, &GetOptions::from_query(&query).resource_version).await?;
    let object = target.object(&api.state)?;
    let (def, version) = (&target.def, target.version());
    if !(representation.sends_stored_json() && form::is_stored_as_shown(def, version, &object)) {
        offload::announce(object.wire().len()).await;
    }
    let wire = match target.subresource().map(|subresource| &subresource.part) {
        Some(Part::Scale(_)) => Wire::Value(scale::shown(target, &form::value(def, version, &object)?)?),
        Some(Part::View | Part::Question(_)) | None => Wire::Bytes(form::wire(def, version, &object)?),
    };
    represent::object(&representation, target, StatusCode::OK, wire)
}

/// Waits until what is asked for can be seen: all that is committed if nothing is said, anything for `0`.
async fn fresh(api: &Api, resource_version: &str) -> Result<(), Status> {
    let reached = match selection::revision(resource_version)? {
        Revision(0) if resource_version.is_empty() => api.state.catch_up(REVISION_WAIT).await.map(|_| ()),
        Revision(0) => Ok(()),
        wanted => api.state.reach(wanted, REVISION_WAIT).await,
    };
    reached.map_err(selection::refused)
}

/// An option of old that would change the answer is refused instead of ignored.
fn refuse_export(query: &Query) -> Result<(), Status> {
    match query.first("export") {
        None => Ok(()),
        Some(value) if value == "0" || value.eq_ignore_ascii_case("false") => Ok(()),
        Some(_) => Err(Status::bad_request("the export parameter, deprecated since v1.14, is no longer supported")),
    }
}
