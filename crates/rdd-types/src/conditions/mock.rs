//! The condition that the mock controller sets on the App, without any VM.

super::condition_specs! { kind "App", controller "mock";
    SETTLED_RUNNING = Settled True [MockController], Good Nothing,
        "app.running set to true",
        "The App should run.";
    SETTLED_STOPPED = Settled False [MockController], Unwanted Watch,
        "app.running set to false",
        "The App should not run.";
}
