//! The names that appear on the wire.

/// Name of the API group.
pub const GROUP: &str = "evacuation.dev";
/// The version of the API group that this crate describes.
pub const VERSION: &str = "v1alpha1";
/// Domain of the names that the project owns, such as `drain.evacuation.dev/NODE_USER`.
pub const DOMAIN: &str = GROUP;
/// Pod annotation that registers responders: a JSON list of [`ResponderEntry`](crate::ResponderEntry).
pub const RESPONDERS_ANNOTATION: &str = "evacuation.dev/responders";
/// Name of the responder that is the target pod itself.
pub const SELF_RESPONDER: &str = "self";
/// Finalizer that holds a deleted Evacuation until the responders that were asked know of the cancellation.
pub const CANCELLATION_FINALIZER: &str = "evacuation.dev/cancellation";

/// The `apiVersion` of every object of this API.
pub fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

/// Returns true when a domain is the project's or below it.
pub(crate) fn is_own_domain(domain: &str) -> bool {
    domain.strip_suffix(DOMAIN).is_some_and(|below| below.is_empty() || below.ends_with('.'))
}
