//! Downloads a file with retries, limits and resumption.

use std::{path::PathBuf, time::Duration};

use http::{HeaderMap, header};
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::{
    cache::Partial,
    connect::{Answer, Means, Wanted, get, without_secrets},
    digest::Sha256,
    error::{Error, Failure},
    progress::Meter,
};

/// The maximum size of a download.
const BYTES_MAX: u64 = 64 << 30;
/// An attempt that adds this many bytes resets the count of failures.
const WORTH: u64 = 64 << 10;
/// How many wrong files a URL may deliver before it is given up.
const MISTAKES_MAX: usize = 2;
/// The same for files in several pieces, of which one may come from an older version of the file.
const PIECED_MISTAKES_MAX: usize = 4;
/// The maximum `Retry-After` that is honored.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// The retry settings of a download.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// The maximum number of consecutive attempts without progress.
    pub(crate) attempts: usize,
    /// The pause after the first failure; it doubles with each further one.
    pub(crate) pause: Duration,
}

impl Manner {
    pub(crate) fn pause_after(&self, failures: usize) -> Duration {
        self.pause.saturating_mul(1 << failures.saturating_sub(1).min(5))
    }
}

/// The file to download.
pub(crate) struct Order<'a> {
    pub(crate) name: &'a str,
    pub(crate) urls: &'a [String],
    pub(crate) digest: Sha256,
    pub(crate) bytes: Option<u64>,
}

/// How an attempt failed.
enum End {
    /// Writing to the cache failed; a retry does not help.
    Disk(Error),
    /// The transfer failed; retry after this minimum delay.
    Failed(Failure, Duration),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure, Duration::ZERO)
    }
}

/// Downloads a file into `partial` and renames it to its final name.
///
/// # Flow
/// Each attempt resumes after the bytes that earlier ones received. After a failed attempt the next URL is tried, after
/// a pause.
///
/// # Errors
/// [`Error::Download`] with the last failure, when all URLs are given up or too many attempts made no progress. The
/// partial file stays for the next call. [`Error::Cache`] at the first failed write.
pub(crate) async fn download(
    means: &Means,
    order: &Order<'_>,
    manner: Manner,
    mut partial: Partial,
    meter: &mut Meter<'_>,
) -> Result<PathBuf, Error> {
    let mut mistakes = vec![UrlMistakes::default(); order.urls.len()];
    let (mut at, mut failures) = (0, 0);
    loop {
        let url = &order.urls[at];
        let before = partial.length;
        let end = match attempt(means, order, url, &mut partial, meter).await {
            Ok(()) if partial.digest() == order.digest => {
                meter.at(partial.length, Some(partial.length), true);
                return partial.commit();
            }
            Ok(()) => wrong(order.digest, &mut partial, &mut mistakes[at])?,
            Err(End::Disk(error)) => return Err(error),
            Err(End::Failed(failure, wait)) => {
                // A permanent failure removes this URL from the candidates.
                if !failure.is_transient() {
                    mistakes[at].whole = MISTAKES_MAX;
                } else if matches!(failure, Failure::Part) {
                    mistakes[at].pieced += 1;
                }
                (failure, wait)
            }
        };
        let (failure, wait) = end;
        failures = if partial.length >= before.saturating_add(WORTH) { 0 } else { failures + 1 };
        let next = (1..=order.urls.len()).map(|step| (at + step) % order.urls.len());
        let next = next.into_iter().find(|next| !mistakes[*next].is_given_up());
        let Some(next) = next.filter(|_| failures < manner.attempts) else {
            return Err(Error::Download { name: order.name.to_owned(), url: without_secrets(url), source: failure });
        };
        let pause = manner.pause_after(failures).max(wait);
        tracing::debug!(file = order.name, attempt = failures, delay = ?pause, error = %rdd_stdx::chain::Chain(&failure), "A download is tried again");
        at = next;
        tokio::time::sleep(pause).await;
    }
}

/// How many wrong files a URL has delivered.
#[derive(Debug, Clone, Copy, Default)]
struct UrlMistakes {
    whole: usize,
    /// Resumed files, and parts that do not fit. They may come from different versions, which is no fault unless it repeats.
    pieced: usize,
}

impl UrlMistakes {
    fn is_given_up(self) -> bool {
        self.whole >= MISTAKES_MAX || self.pieced >= PIECED_MISTAKES_MAX
    }
}

/// Handles a complete file with a wrong digest.
fn wrong(expected: Sha256, partial: &mut Partial, mistakes: &mut UrlMistakes) -> Result<(Failure, Duration), Error> {
    let failure = Failure::Digest { expected, found: partial.digest() };
    // A resumed file counts in full once a complete response was wrong as well.
    if partial.is_pieced && mistakes.whole == 0 {
        mistakes.pieced += 1;
    } else {
        mistakes.whole += 1;
    }
    partial.restart()?;
    Ok((failure, Duration::ZERO))
}

async fn attempt(
    means: &Means,
    order: &Order<'_>,
    url: &str,
    partial: &mut Partial,
    meter: &mut Meter<'_>,
) -> Result<(), End> {
    if order.bytes.is_some_and(|bytes| partial.length > bytes) {
        partial.restart().map_err(End::Disk)?;
    }
    if partial.length > 0 && order.bytes == Some(partial.length) {
        return Ok(()); // complete already: an earlier process ended before the rename
    }
    let same = partial.origin.as_ref().filter(|(from, _)| from == url);
    let validator = same.map(|(_, validator)| validator.clone()).filter(|validator| !validator.is_empty());
    let answer = get(means, url, &Wanted { from: partial.length, validator }).await?;
    let total = match answer.response.status().as_u16() {
        200 => {
            partial.restart().map_err(End::Disk)?;
            length_of(answer.response.headers())
        }
        206 => {
            partial.is_pieced = true;
            rest_of(answer.response.headers(), partial.length)?
        }
        // 416: the file has no more bytes than the partial download.
        416 if partial.length > 0 => return Ok(()),
        status => return Err(End::Failed(Failure::Status(status), retry_after(answer.response.headers()))),
    };
    if let (Some(expected), Some(found)) = (order.bytes, total)
        && expected != found
    {
        return Err(Failure::Length { expected, found }.into());
    }
    partial.came_from(url, &validator_of(answer.response.headers()));
    take(means, answer, order.bytes.or(total), partial, meter).await
}

/// Appends the body to the partial download.
async fn take(
    means: &Means,
    mut answer: Answer,
    total: Option<u64>,
    partial: &mut Partial,
    meter: &mut Meter<'_>,
) -> Result<(), End> {
    let expected = total.unwrap_or(BYTES_MAX);
    meter.at(partial.length, total, true);
    let body = answer.response.body_mut();
    loop {
        let silence = Failure::Silence { seconds: means.silence.as_secs() };
        let Some(frame) = timeout(means.silence, body.frame()).await.map_err(|_| silence)? else { break };
        let frame = frame.map_err(|source| Failure::Talk { host: answer.host.clone(), source })?;
        let Ok(data) = frame.into_data() else { continue };
        let found = partial.length.saturating_add(data.len() as u64);
        if found > expected {
            let is_pieced = partial.is_pieced;
            partial.restart().map_err(End::Disk)?;
            // In a resumed file, any earlier part can be the wrong one.
            return Err(if is_pieced { Failure::Part } else { Failure::Length { expected, found } }.into());
        }
        partial.append(&data).map_err(End::Disk)?;
        meter.at(partial.length, total, false);
    }
    match total {
        // The server announced a length and closed the connection early.
        Some(total) if partial.length < total => Err(Failure::Short { expected: total, found: partial.length }.into()),
        _ => Ok(()),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn length_of(headers: &HeaderMap) -> Option<u64> {
    text(headers, &header::CONTENT_LENGTH)?.trim().parse().ok()
}

/// The total length in a `Content-Range`, if present. The range must begin at `from`.
fn rest_of(headers: &HeaderMap, from: u64) -> Result<Option<u64>, Failure> {
    let range = text(headers, &header::CONTENT_RANGE).and_then(|range| range.strip_prefix("bytes "));
    let (part, total) = range.and_then(|range| range.split_once('/')).ok_or(Failure::Part)?;
    let begins: Option<u64> = part.split('-').next().and_then(|begin| begin.trim().parse().ok());
    if begins != Some(from) {
        return Err(Failure::Part);
    }
    Ok(total.trim().parse().ok())
}

/// The validator of the file: its strong ETag, else its modification time. `If-Range` does not allow weak tags.
fn validator_of(headers: &HeaderMap) -> String {
    let tag = text(headers, &header::ETAG).filter(|tag| tag.starts_with('"'));
    tag.or_else(|| text(headers, &header::LAST_MODIFIED)).unwrap_or_default().replace('\n', "")
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = text(headers, &header::RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or(0)).min(RETRY_AFTER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(set: &[(header::HeaderName, &str)]) -> HeaderMap {
        set.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_rest_must_begin_where_it_should() {
        let range = |text: &str| rest_of(&headers(&[(header::CONTENT_RANGE, text)]), 5);
        assert_eq!(range("bytes 5-9/10").unwrap(), Some(10));
        assert_eq!(range("bytes 5-9/*").unwrap(), None);
        for wrong in ["bytes 4-9/10", "bytes 0-9/10", "bytes */10", "items 5-9/10", "5-9/10", ""] {
            assert!(matches!(range(wrong), Err(Failure::Part)), "{wrong}");
        }
        assert!(rest_of(&HeaderMap::new(), 5).is_err());
    }

    #[test]
    fn weak_tags_are_not_asked_with() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(validator_of(&headers(&[(header::ETAG, "\"a\""), (header::LAST_MODIFIED, date)])), "\"a\"");
        assert_eq!(validator_of(&headers(&[(header::ETAG, "W/\"a\""), (header::LAST_MODIFIED, date)])), date);
        assert_eq!(validator_of(&HeaderMap::new()), "");
    }

    #[test]
    fn pauses_grow_and_have_a_bound() {
        let manner = Manner { attempts: 9, pause: Duration::from_millis(250) };
        let pauses: Vec<u128> = (1..9).map(|failures| manner.pause_after(failures).as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
        assert_eq!(manner.pause_after(0), Duration::from_millis(250));
    }
}
