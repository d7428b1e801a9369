//! Measures reads: the CPU time of a GET, and the throughput of a list.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use rdd_stdx::task::Group;
use tokio::time::Instant;

use super::{
    process,
    wire::{Endpoint, Protocol},
};

/// A server with its process.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) endpoint: Endpoint,
    pub(crate) pid: u32,
}

/// The reads of one measurement window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    /// Requests per second.
    pub(crate) rate: f64,
    /// Bytes per second.
    pub(crate) bytes_per_second: f64,
    /// Seconds of the server's CPU time per request.
    pub(crate) cpu: f64,
}

/// Reads a path repeatedly over this many connections, after a warm-up of a fifth of the measured time.
pub(crate) async fn read(
    server: &Measured,
    protocol: Protocol,
    path: &str,
    connections: usize,
    measured: Duration,
) -> Result<Read> {
    let opened = server.endpoint.connect_many(protocol, connections).await?;
    let begins = Instant::now() + measured / 5;
    let ends = begins + measured;
    let mut readers = Group::default();
    for mut connection in opened {
        let path = path.to_owned();
        readers.spawn("reader", async move {
            let (mut requests, mut bytes) = (0_u32, 0_usize);
            loop {
                let read = connection.skim(&path).await?;
                let now = Instant::now();
                if now >= ends {
                    return Ok::<_, anyhow::Error>((requests, bytes));
                }
                if now >= begins {
                    requests += 1;
                    bytes += read;
                }
            }
        });
    }
    tokio::time::sleep_until(begins).await;
    let before = process::cpu(server.pid)?;
    tokio::time::sleep_until(ends).await;
    let used = process::cpu(server.pid)?.saturating_sub(before);
    let (mut requests, mut bytes) = (0, 0);
    while let Some(ended) = readers.next().await {
        match ended.outcome {
            Ok(read) => {
                let (some, of_these) = read?;
                requests += some;
                bytes += of_these;
            }
            Err(failure) => bail!("a reader: {failure}"),
        }
    }
    summarize(requests, bytes, measured, used).with_context(|| format!("nothing of {path} was read in {measured:?}"))
}

#[expect(clippy::cast_precision_loss, reason = "there are no 2^52 bytes in a few seconds")]
fn summarize(requests: u32, bytes: usize, measured: Duration, used: Duration) -> Option<Read> {
    let seconds = measured.as_secs_f64();
    (requests > 0).then(|| Read {
        rate: f64::from(requests) / seconds,
        bytes_per_second: bytes as f64 / seconds,
        cpu: used.as_secs_f64() / f64::from(requests),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_told_per_second_and_per_request() {
        let read = summarize(500, 1_000_000, Duration::from_secs(2), Duration::from_millis(100)).unwrap();
        assert_eq!((read.rate, read.bytes_per_second, read.cpu), (250.0, 500_000.0, 0.0002));
        assert!(summarize(0, 0, Duration::from_secs(2), Duration::ZERO).is_none());
    }
}
