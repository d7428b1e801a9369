//! Everything that the engine controller says in an App's conditions.

use crate::saying::Saying;

/// The condition type of the engine's mirror.
pub const CONTAINER_ENGINE_READY: &str = "ContainerEngineReady";

const fn ready(status: &'static str, reason: &'static str, message: &'static str, when: &'static str) -> Saying {
    Saying { condition: CONTAINER_ENGINE_READY, status, reason, message, when }
}

/// All is mirrored.
pub static CONNECTED: Saying = ready(
    "True",
    "Connected",
    "Container engine synced",
    "The engine answers, everything that it has was looked at, and its events are followed.",
);
/// It has begun.
pub static CONNECTING: Saying = ready(
    "False",
    "Connecting",
    "Connecting to the container engine",
    "The VM runs, and what the engine has is not mirrored completely yet.",
);
/// It did not work out.
pub static CONNECT_FAILED: Saying = ready(
    "False",
    "ConnectFailed",
    "<what failed: failed to ping Docker, failed to perform initial sync, or the end of the engine's events>",
    "The VM runs and the engine does not answer, or hung up. It is tried again with growing delay; mirrors stay as they are.",
);
/// Not an engine that is mirrored.
pub static NOT_APPLICABLE: Saying = ready(
    "Unknown",
    "NotApplicable",
    "Engine mirroring is only supported with the moby backend",
    "The VM runs with another engine than moby, and no mirror is left.",
);
/// There is no engine.
pub static STOPPED: Saying = ready(
    "False",
    "Stopped",
    "Container engine stopped",
    "The VM does not run, or the App is being deleted, and no mirror is left.",
);

/// All of the above.
pub static ALL: [&Saying; 5] = [&CONNECTED, &CONNECTING, &CONNECT_FAILED, &NOT_APPLICABLE, &STOPPED];
