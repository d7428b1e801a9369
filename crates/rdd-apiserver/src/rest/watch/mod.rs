//! `watch`: the changes of a collection as they happen, one line of JSON or one frame of protobuf for each, or one message of a WebSocket.

mod body;
mod session;
mod websocket;

use std::time::Duration;

use http::{HeaderValue, header, request::Parts};
use rdd_meta::{Status, options::ListOptions};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::{
    body::WatchBody,
    session::{Begun, Session},
};
use super::{Api, Target, get::REVISION_WAIT, selection};
use crate::{
    represent,
    respond::{Body, Response},
    state::{Error, WatchFrom},
};

/// A watch without a timeout of its own lasts at least so long, and less than twice as long.
const TIMEOUT_MIN: Duration = Duration::from_mins(30);

/// Answers with changes until the time is over, the client has enough, `stopping` is cancelled, or the resource is gone. What
/// goes wrong once the request is understood is an event of the watch, not an answer of its own.
pub async fn watch(api: &Api, target: &Target, head: &Parts, stopping: CancellationToken) -> Result<Response, Status> {
    let mut options = selection::options(head)?;
    let representation = represent::negotiate_stream(api, target, head)?;
    selection::complete(target, &mut options)?;
    let begun = begin(api, target, &options).await?;
    let deadline = Instant::now() + timeout(options.timeout_seconds);
    let initial = options.send_initial_events == Some(true);
    let media_type = representation.encoding.stream_media_type();
    let session = Session::new(api, target.clone(), representation, begun)
        .bookmarks(options.allow_watch_bookmarks, initial)
        .until(deadline, stopping);
    if rdd_websocket::is_websocket_request(&head.headers) {
        return websocket::upgrade(head, session.with_messages());
    }
    let mut response = Response::new(Body::new(WatchBody::new(session)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    Ok(response)
}

/// Starts to watch, or says in an event why that cannot be.
async fn begin(api: &Api, target: &Target, options: &ListOptions) -> Result<Begun, Status> {
    let revision = selection::revision(&options.resource_version)?;
    let named = revision.0 > 0;
    // Whoever names no revision wants what is there first, unless it says that it does not.
    let initial = options.send_initial_events.unwrap_or(!named);
    let reached = match (initial, options.resource_version.as_str()) {
        (_, "") => api.state.catch_up(REVISION_WAIT).await.map(|_| ()),
        (true, _) => api.state.reach(revision, REVISION_WAIT).await,
        (false, _) => Ok(()),
    };
    if let Err(error) = reached {
        return Ok(Begun::Failed(selection::refused(error)));
    }
    let from = match (initial, named) {
        (true, _) => WatchFrom::Now,
        (false, true) => WatchFrom::After(revision),
        (false, false) => WatchFrom::After(api.state.revision()),
    };
    let filter = selection::filter(target, options);
    Ok(match api.state.watch(&target.scope()?, from, filter) {
        Ok(watch) => Begun::Watching(Box::new(watch)),
        Err(Error::Expired { wanted, oldest }) => Begun::Failed(Status::expired_watch(wanted.0, oldest.0)),
        Err(error) => Begun::Failed(selection::refused(error)),
    })
}

/// What was asked for; if nothing was, something that differs between watches, so that they do not all end together.
fn timeout(seconds: Option<i64>) -> Duration {
    match seconds {
        None | Some(0) => TIMEOUT_MIN.mul_f64(1.0 + random()),
        // What is over before it began ends at once. No watch is worth more than a year.
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(Duration::from_hours(24 * 365)),
    }
}

/// A number from 0 to 1.
fn random() -> f64 {
    let bits = u32::try_from(uuid::Uuid::new_v4().as_u128() >> 96).unwrap_or(0);
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_lasts_as_long_as_asked_for_or_some_time_of_its_own() {
        assert_eq!(timeout(Some(5)), Duration::from_secs(5));
        assert_eq!(timeout(Some(-1)), Duration::ZERO);
        assert!(timeout(Some(i64::MAX)) < Duration::from_hours(24 * 366));
        let own: Vec<Duration> = (0..20).map(|_| timeout(None)).collect();
        assert!(own.iter().all(|time| (TIMEOUT_MIN..2 * TIMEOUT_MIN).contains(time)), "{own:?}");
        assert!(own.iter().any(|time| *time != own[0]));
    }
}
