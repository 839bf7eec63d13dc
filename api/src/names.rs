//! The names that appear on the wire.

/// The API group.
pub const GROUP: &str = "evacuation.dev";
/// The version of the API group that this crate describes.
pub const VERSION: &str = "v1alpha1";
/// The domain of names that the project itself owns, such as `drain.evacuation.dev/NODE_USER`.
pub const DOMAIN: &str = GROUP;
/// The pod annotation that registers responders: a JSON list of [`ResponderEntry`](crate::ResponderEntry).
pub const RESPONDERS_ANNOTATION: &str = "evacuation.dev/responders";
/// The name of the responder that is the target pod itself.
pub const SELF_RESPONDER: &str = "self";
/// Holds a deleted Evacuation until the responders that were asked have learnt that it is canceled.
pub const CANCELLATION_FINALIZER: &str = "evacuation.dev/cancellation";

/// The `apiVersion` of every object of this API.
pub fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}
