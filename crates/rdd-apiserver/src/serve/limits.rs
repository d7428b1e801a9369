//! How much of anything the server takes.

use std::time::Duration;

/// Connections at once; further ones wait to be accepted.
pub const CONNECTIONS: usize = 512;
/// Of these, connections that have not authenticated yet: this many of the user that the server runs as, and this many of all
/// other users of the machine together. As many again of the first may wait for a place. Where the platform does not say who
/// opened a connection, all of them count as the first.
pub const PENDING_CONNECTIONS: usize = 128;
/// While others wait for a place, how long a connection may have one without authenticating. On loopback a handshake and a
/// request take milliseconds; the rest is for a busy machine.
pub const PENDING_TIME: Duration = Duration::from_secs(2);
/// From the start to the end of the TLS handshake; and how long a connection waits for a place before that.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// From the end of one request to the end of the next one's head on an HTTP/1.1 connection, so also how long it may be
/// idle: Kubernetes' own value for that. Before anyone is known, [`AUTHENTICATION_TIMEOUT`] is the shorter one.
pub const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(90);
/// From the end of the handshake until a connection has made a request whose sender is known. One that has not is closed.
pub const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(30);
/// Size of a request's head.
pub const HEADER_BYTES: u32 = 64 * 1024;
/// Headers of an HTTP/1.1 request.
pub const HEADERS: usize = 100;
/// Size of a request's body: Kubernetes' own limit.
pub const BODY_BYTES: usize = 3 * 1024 * 1024;
/// From this size on a body counts against [`LARGE_BODIES_BYTES`].
pub const LARGE_BODY_BYTES: usize = 256 * 1024;
/// Bytes of large bodies whose requests are worked on at the same time; further ones wait. A body that is larger counts
/// as this much.
pub const LARGE_BODIES_BYTES: usize = 2 * 1024 * 1024;
/// Requests in flight that change something.
pub const MUTATING_IN_FLIGHT: usize = 200;
/// Requests in flight that do not.
pub const READ_ONLY_IN_FLIGHT: usize = 400;
/// From the end of a request's head to the end of its response, for requests that end by themselves.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// What a client that got 429 is told to wait, in seconds.
pub const RETRY_AFTER_SECONDS: u32 = 1;
/// Streams at once on one HTTP/2 connection: Kubernetes' value since Rapid Reset.
pub const STREAMS: u32 = 100;
/// Streams that the client has reset before we looked at them; more close the connection.
pub const PENDING_RESETS: usize = 20;
/// Streams that we have reset because of what the client did; more close the connection.
pub const ERROR_RESETS: usize = 256;
/// What a client may send on one stream ahead of our reading it.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// What it may send on all streams of a connection together: one body of the greatest size and some.
pub const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// An HTTP/2 connection on which nothing has come in for so long is asked whether it is alive.
pub const PING_INTERVAL: Duration = Duration::from_secs(120);
/// How long it may take to answer that.
pub const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long shutdown waits for requests in flight.
pub const DRAIN: Duration = Duration::from_secs(60);
/// How long shutdown waits for a client that takes nothing of what it is sent, and for which there is no other deadline.
pub const TRANSFER_STALL_TIME: Duration = Duration::from_secs(5);
/// How long shutdown waits for clients that have nothing in flight to close their connections.
pub const CLOSE: Duration = Duration::from_secs(1);

/// Bytes that are read and discarded after we have closed our side of a connection: one body of the greatest size and some.
pub const LINGER_BYTES: usize = BODY_BYTES + 1024 * 1024;
/// How long that may take in all. A client that has not authenticated may hold a connection for longer anyway.
pub const LINGER_TIME: Duration = Duration::from_secs(5);
/// How long the client may send nothing meanwhile: what Go's `net/http` waits.
pub const LINGER_IDLE: Duration = Duration::from_millis(500);

/// The limits that an owner, or a test, may choose. The defaults are the constants of this module.
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
    /// The defaults, with fewer connections where the process may not have enough files open.
    ///
    /// A quarter is for these connections. The rest is for the store, for what requests open on the way, such as connections
    /// to webhooks, and for the rest of the process.
    pub fn for_open_files(open_files: u64) -> Self {
        let share = usize::try_from(open_files / 4).unwrap_or(usize::MAX);
        let connections = CONNECTIONS.min(share).max(1);
        // Two limits of this size apply, and a line of this size: a quarter is always left for those who have authenticated.
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
