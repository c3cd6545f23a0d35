//! The message types of each revision, by the names of its schema. Unions and base types, which are
//! never sent, are left out, and so are the names of whole responses: each of our results is one.

/// Returns the names of the message types of a revision.
pub type Types = fn() -> Vec<&'static str>;

/// A revision and its types.
pub const REVISIONS: [(&str, Types); 5] = [
    ("2024-11-05", || [COMMON, ENVELOPES].concat()),
    ("2025-03-26", || {
        [
            COMMON,
            ENVELOPES,
            &["JSONRPCBatchRequest", "JSONRPCBatchResponse"],
        ]
        .concat()
    }),
    ("2025-06-18", || [COMMON, ENVELOPES, ELICITATION].concat()),
    ("2025-11-25", || {
        [COMMON, LATER_ENVELOPES, ELICITATION, OF_2025_11_25].concat()
    }),
    ("2026-07-28", || {
        [SHARED, LATER_ENVELOPES, ELICITATION, OF_2026_07_28].concat()
    }),
];

/// Further types that the corpus must have.
pub const ODD: [&str; 6] = [
    "unknown fields",
    "large integers",
    "long decimals",
    "unusual key order",
    "deep nesting",
    "unknown content kinds",
];

/// Types of all legacy revisions.
const COMMON: &[&str] = &[
    "CallToolRequest",
    "CallToolResult",
    "CancelledNotification",
    "CompleteRequest",
    "CompleteResult",
    "CreateMessageRequest",
    "CreateMessageResult",
    "EmptyResult",
    "GetPromptRequest",
    "GetPromptResult",
    "InitializeRequest",
    "InitializeResult",
    "InitializedNotification",
    "ListPromptsRequest",
    "ListPromptsResult",
    "ListResourceTemplatesRequest",
    "ListResourceTemplatesResult",
    "ListResourcesRequest",
    "ListResourcesResult",
    "ListRootsRequest",
    "ListRootsResult",
    "ListToolsRequest",
    "ListToolsResult",
    "LoggingMessageNotification",
    "PingRequest",
    "ProgressNotification",
    "PromptListChangedNotification",
    "ReadResourceRequest",
    "ReadResourceResult",
    "ResourceListChangedNotification",
    "ResourceUpdatedNotification",
    "RootsListChangedNotification",
    "SetLevelRequest",
    "SubscribeRequest",
    "ToolListChangedNotification",
    "UnsubscribeRequest",
];

/// Types of the modern revision that the legacy ones have as well.
const SHARED: &[&str] = &[
    "CallToolRequest",
    "CallToolResult",
    "CancelledNotification",
    "CompleteRequest",
    "CompleteResult",
    "CreateMessageRequest",
    "CreateMessageResult",
    "EmptyResult",
    "GetPromptRequest",
    "GetPromptResult",
    "ListPromptsRequest",
    "ListPromptsResult",
    "ListResourceTemplatesRequest",
    "ListResourceTemplatesResult",
    "ListResourcesRequest",
    "ListResourcesResult",
    "ListRootsRequest",
    "ListRootsResult",
    "ListToolsRequest",
    "ListToolsResult",
    "LoggingMessageNotification",
    "ProgressNotification",
    "PromptListChangedNotification",
    "ReadResourceRequest",
    "ReadResourceResult",
    "ResourceListChangedNotification",
    "ResourceUpdatedNotification",
    "ToolListChangedNotification",
];

const ENVELOPES: &[&str] = &[
    "JSONRPCError",
    "JSONRPCNotification",
    "JSONRPCRequest",
    "JSONRPCResponse",
];

const LATER_ENVELOPES: &[&str] = &[
    "JSONRPCErrorResponse",
    "JSONRPCNotification",
    "JSONRPCRequest",
    "JSONRPCResultResponse",
];

const ELICITATION: &[&str] = &["ElicitRequest", "ElicitResult"];

const OF_2025_11_25: &[&str] = &[
    "CancelTaskRequest",
    "CancelTaskResult",
    "CreateTaskResult",
    "ElicitationCompleteNotification",
    "GetTaskPayloadRequest",
    "GetTaskPayloadResult",
    "GetTaskRequest",
    "GetTaskResult",
    "ListTasksRequest",
    "ListTasksResult",
    "TaskStatusNotification",
    "URLElicitationRequiredError",
];

/// The last five are those of the extension for tasks.
const OF_2026_07_28: &[&str] = &[
    "DiscoverRequest",
    "DiscoverResult",
    "HeaderMismatchError",
    "InputRequiredResult",
    "InternalError",
    "InvalidParamsError",
    "InvalidRequestError",
    "MethodNotFoundError",
    "MissingRequiredClientCapabilityError",
    "ParseError",
    "SubscriptionsAcknowledgedNotification",
    "SubscriptionsListenRequest",
    "SubscriptionsListenResult",
    "UnsupportedProtocolVersionError",
    "CreateTaskResult",
    "GetTaskRequest",
    "GetTaskResult",
    "UpdateTaskRequest",
    "CancelTaskRequest",
];
