//! Levels and stages.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

/// Amount of what is recorded of a request. Each level includes those before it.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Deserialize,
    Serialize,
    EnumString,
    IntoStaticStr,
    VariantNames,
)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// User, verb, object, status and times.
    Metadata,
    /// Also the body of the request.
    Request,
    /// Also the object of the reply.
    RequestResponse,
}

/// Stage of a request at which an event is recorded.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Deserialize,
    Serialize,
    EnumString,
    IntoStaticStr,
    VariantNames,
)]
pub enum Stage {
    /// The caller is known, and nothing else was done.
    #[default]
    RequestReceived,
    /// The headers of the reply of a watch were sent. Failed authentications end here, too.
    ResponseStarted,
    /// The reply is complete.
    ResponseComplete,
    /// The server panicked.
    Panic,
}
