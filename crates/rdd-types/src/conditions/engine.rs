//! The condition that the engine controller sets on the App.

super::condition_specs! { kind "App", controller "engine";
    CONNECTED = ContainerEngineReady True [Connected], Good Nothing,
        "Container engine synced",
        "The engine answers, all its objects are mirrored, and the controller follows its events.";
    CONNECTING = ContainerEngineReady False [Connecting], Passing Watch,
        "Connecting to the container engine",
        "The VM runs, and the engine's objects are not mirrored completely yet.";
    CONNECT_FAILED = ContainerEngineReady False [ConnectFailed], Failed ServiceLog,
        "<what failed: failed to ping Docker, failed to perform initial sync, or the end of the engine's events>",
        "The VM runs, and the engine does not answer or closed the connection. The controller retries with backoff; mirrors stay as they are.";
    NOT_APPLICABLE = ContainerEngineReady Unknown [NotApplicable], Unwanted Watch,
        "Engine mirroring is only supported with the moby backend",
        "The VM runs with another engine than moby, and no mirror is left.";
    STOPPED = ContainerEngineReady False [Stopped], Unwanted Watch,
        "Container engine stopped",
        "The VM does not run, or the App is being deleted, and no mirror is left.";
}
