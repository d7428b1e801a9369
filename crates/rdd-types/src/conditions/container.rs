//! The conditions of a Container. They follow from the state that the engine reports.

super::condition_specs! { kind "Container", controller "container";
    RUNNING = Running True [Running], Good Nothing,
        "Container is running",
        "The container's process runs.";
    NOT_RUNNING = Running False [NotRunning], Unwanted Watch,
        "Container is not running",
        "The container's process does not run, or is paused.";
    PAUSED = Paused True [Paused], Good Nothing,
        "Container is paused",
        "The container is paused.";
    NOT_PAUSED = Paused False [NotPaused], Unwanted Watch,
        "Container is not paused",
        "The container is not paused.";
    RESTARTING = Restarting True [Restarting], Good Nothing,
        "Container is restarting",
        "The engine is restarting the container.";
    NOT_RESTARTING = Restarting False [NotRestarting], Unwanted Watch,
        "Container is not restarting",
        "The engine is not restarting the container.";
    DEAD = Dead True [Dead], Good Nothing,
        "Container is dead",
        "The engine could not remove the container.";
    NOT_DEAD = Dead False [NotDead], Unwanted Watch,
        "Container is not dead",
        "The container was not left behind by a failed removal.";
    OOM_KILLED_UNKNOWN = OOMKilled Unknown [OOMKilled], Unwanted Watch,
        "Unable to tell if container is OOMKilled",
        "The engine does not report whether the container ran out of memory.";
}
