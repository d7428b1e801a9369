//! The limits of connections, requests, and waiting times, with the reason for each.

use std::time::Duration;

/// The maximum number of open connections. Further ones wait in the kernel until they are accepted.
pub const CONNECTIONS: usize = 512;
/// The maximum number of open connections that have not authenticated yet: this many for the user that the server runs as, and
/// this many for all other users of the machine together. As many again of the server's own user may wait for a place. If the
/// platform does not report the user of a connection, all connections count as the server's own user's.
pub const PENDING_CONNECTIONS: usize = 128;
/// The time within which a connection must authenticate while others wait for a place. On loopback a handshake and a request take
/// milliseconds; the rest is tolerance for a busy machine.
pub const PENDING_TIME: Duration = Duration::from_secs(2);
/// The timeout of the TLS handshake, and of the wait for a place before it.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout from the end of one request to the end of the head of the next one on an HTTP/1.1 connection, and therefore also
/// the idle timeout: Kubernetes' value. Before a request has authenticated, [`AUTHENTICATION_TIMEOUT`] is shorter.
pub const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(90);
/// The time from the end of the handshake within which a request must have authenticated. Otherwise the server closes the
/// connection.
pub const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a request's head.
pub const HEADER_BYTES: u32 = 64 * 1024;
/// The maximum number of headers of an HTTP/1.1 request.
pub const HEADERS: usize = 100;
/// The maximum size of a request's body: Kubernetes' limit.
pub const BODY_BYTES: usize = 3 * 1024 * 1024;
/// The size from which a body counts against [`LARGE_BODIES_BYTES`].
pub const LARGE_BODY_BYTES: usize = 256 * 1024;
/// The maximum total size of large bodies whose requests are processed at the same time; further ones wait. A body that is larger
/// than this counts as this size.
pub const LARGE_BODIES_BYTES: usize = 2 * 1024 * 1024;
/// The maximum number of mutating requests in flight.
pub const MUTATING_IN_FLIGHT: usize = 200;
/// The maximum number of read-only requests in flight.
pub const READ_ONLY_IN_FLIGHT: usize = 400;
/// The time from the end of a request's head to the end of its response, for requests that end by themselves.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The value of `Retry-After` in a 429 response, in seconds.
pub const RETRY_AFTER_SECONDS: u32 = 1;
/// The maximum number of concurrent streams of an HTTP/2 connection: Kubernetes' value since the Rapid Reset attack.
pub const STREAMS: u32 = 100;
/// The maximum number of streams that the client has reset before the server accepted them. More of them close the connection.
pub const PENDING_RESETS: usize = 20;
/// The maximum number of streams that the server has reset because of errors of the client. More of them close the connection.
pub const ERROR_RESETS: usize = 256;
/// The flow-control window of a stream: how much a client may send before the server has read it.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// The flow-control window of a connection: one body of the maximum size, and some more.
pub const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// The interval after which the server pings an HTTP/2 connection that has received nothing.
pub const PING_INTERVAL: Duration = Duration::from_secs(120);
/// The time within which the client must answer a ping.
pub const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// The time that shutdown waits for requests in flight.
pub const DRAIN: Duration = Duration::from_secs(60);
/// The time that shutdown waits for a client that reads nothing of a response without a deadline.
pub const TRANSFER_STALL_TIME: Duration = Duration::from_secs(5);
/// The time that shutdown waits for clients without requests in flight to close their connections.
pub const CLOSE: Duration = Duration::from_secs(1);

/// The maximum number of bytes to read and discard after the server has closed its side: one body of the maximum size, and some
/// more.
pub const LINGER_BYTES: usize = BODY_BYTES + 1024 * 1024;
/// The maximum duration of that. A client that has not authenticated may hold a connection for longer anyway.
pub const LINGER_TIME: Duration = Duration::from_secs(5);
/// The maximum time without data from the client during that: the value of Go's `net/http`.
pub const LINGER_IDLE: Duration = Duration::from_millis(500);

/// The limits that the owner of a server can choose. The defaults are the constants of this module.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// See [`CONNECTIONS`].
    pub connections: usize,
    /// See [`PENDING_CONNECTIONS`].
    pub pending_connections: usize,
    /// See [`PENDING_TIME`].
    pub pending_time: Duration,
    /// See [`HANDSHAKE_TIMEOUT`].
    pub handshake_timeout: Duration,
    /// See [`HEADER_READ_TIMEOUT`].
    pub header_read_timeout: Duration,
    /// See [`AUTHENTICATION_TIMEOUT`].
    pub authentication_timeout: Duration,
    /// See [`HEADER_BYTES`].
    pub header_bytes: u32,
    /// See [`HEADERS`].
    pub headers: usize,
    /// See [`BODY_BYTES`].
    pub body_bytes: usize,
    /// See [`MUTATING_IN_FLIGHT`].
    pub mutating_in_flight: usize,
    /// See [`READ_ONLY_IN_FLIGHT`].
    pub read_only_in_flight: usize,
    /// See [`REQUEST_TIMEOUT`].
    pub request_timeout: Duration,
    /// See [`STREAMS`].
    pub streams: u32,
    /// See [`PING_INTERVAL`].
    pub ping_interval: Duration,
    /// See [`PING_TIMEOUT`].
    pub ping_timeout: Duration,
    /// See [`TRANSFER_STALL_TIME`].
    pub transfer_stall_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            pending_connections: PENDING_CONNECTIONS,
            pending_time: PENDING_TIME,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            header_read_timeout: HEADER_READ_TIMEOUT,
            authentication_timeout: AUTHENTICATION_TIMEOUT,
            header_bytes: HEADER_BYTES,
            headers: HEADERS,
            body_bytes: BODY_BYTES,
            mutating_in_flight: MUTATING_IN_FLIGHT,
            read_only_in_flight: READ_ONLY_IN_FLIGHT,
            request_timeout: REQUEST_TIMEOUT,
            streams: STREAMS,
            ping_interval: PING_INTERVAL,
            ping_timeout: PING_TIMEOUT,
            transfer_stall_time: TRANSFER_STALL_TIME,
        }
    }
}

impl Limits {
    /// The defaults, with fewer connections if the process has a low limit of open files.
    ///
    /// A quarter of the file descriptors is for these connections. The rest is for the store, for connections that requests open,
    /// such as those to webhooks, and for the rest of the process.
    pub fn for_open_files(open_files: u64) -> Self {
        let share = usize::try_from(open_files / 4).unwrap_or(usize::MAX);
        let connections = CONNECTIONS.min(share).max(1);
        // Own user, other users, and waiting connections take one quarter each, so a quarter is left for those that have
        // authenticated.
        Self { connections, pending_connections: PENDING_CONNECTIONS.min(connections / 4).max(1), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding A-8
    #[test]
    fn connections_are_limited_by_what_can_be_open() {
        for (open_files, connections, pending) in
            [(u64::MAX, 512, 128), (1 << 20, 512, 128), (2048, 512, 128), (1024, 256, 64), (64, 16, 4), (0, 1, 1)]
        {
            let limits = Limits::for_open_files(open_files);
            assert_eq!((limits.connections, limits.pending_connections), (connections, pending), "{open_files}");
        }
    }
}
