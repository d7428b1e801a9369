//! The conditions of a Demo.

super::condition_specs! { kind "Demo", controller "demo";
    READY_PROCESSING = Ready True [Processing], Good Nothing,
        "Demo controller is ready and processing messages",
        "The controller is processing messages.";
    READY = Ready True [Ready], Good Nothing,
        "Demo controller is ready",
        "The controller has nothing left to do.";
    PROCESSING = Processing True [InProgress], Good Nothing,
        "Processing demo messages",
        "The message is being processed.";
    NOT_PROCESSING = Processing False [Completed], Unwanted Watch,
        "Processing has completed",
        "The message was processed as often as `spec.count` asks.";
    NOT_COMPLETED = Completed False [InProgress], Passing Watch,
        "Processing is still in progress",
        "The message is being processed.";
    COMPLETED = Completed True [Completed], Good Nothing,
        "All messages have been processed successfully",
        "The message was processed as often as `spec.count` asks.";
}
