//! The server side of WebSockets as Kubernetes uses them: handshake, subprotocols, messages, and a clean close.
//!
//! tungstenite implements the frames. This crate adds Kubernetes' subprotocols and the limits: timeouts for sending and
//! for silent clients, the size of received messages, and the close handshake.

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
