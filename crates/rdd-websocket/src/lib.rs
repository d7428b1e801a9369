//! The server's side of a WebSocket as Kubernetes speaks it: handshake, subprotocols, messages, a timely end.
//!
//! Frames are tungstenite's. What is here is what Kubernetes adds, and the bounds: how long a client may take to read, how
//! much it may send, and how both sides learn of the end.

mod handshake;
mod pour;
mod protocol;
mod socket;

pub use self::{
    handshake::{HandshakeError, accept, is_websocket_request},
    pour::{StreamPiece, pour},
    protocol::{
        BEARER_PREFIX, BearerError, LOG_PROTOCOLS, STDERR_CHANNEL, STDOUT_CHANNEL, Subprotocol, bearer_token,
        offered_protocols, select_protocol, strip_bearer_protocol,
    },
    socket::{Received, Socket, SocketError, close_code},
};
