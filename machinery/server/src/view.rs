//! Read-only virtual resources, made from stored ones.

use crate::{ApiError, Column, KindInfo, Object, RequestContext, Strategy};

/// A read-only resource that shows, of the objects of a stored one, what a caller may see of them.
///
/// # Guarantees
///
/// Names, namespaces, UIDs and resourceVersions are the stored object's. A watch reports an object that leaves the
/// projection as deleted and one that enters it as added; bookmarks go through.
pub trait View: Send + Sync + 'static {
    /// The rules of the stored kind.
    type Source: Strategy;

    /// The kind that is shown.
    type Object: Object;

    /// How the kind is named and found.
    fn info(&self) -> KindInfo;

    /// Whether the caller has a view at all; asked once a request, before anything is read.
    ///
    /// # Errors
    ///
    /// What the caller is told, a 403 as a rule.
    fn admit(&self, context: &RequestContext) -> Result<(), ApiError>;

    /// The only namespace in which the caller can see anything; `None` when there is no such one. A list or a watch over all namespaces
    /// then reads that one, and is spared the objects and events of all others.
    fn namespace(&self, _context: &RequestContext) -> Option<String> {
        None
    }

    /// Whether every caller may list the view. If not, discovery omits the verb `list`: clients such as
    /// `kubectl get` of all kinds list each kind that has it, and report the 403.
    fn every_caller_may_list(&self) -> bool {
        true
    }

    /// What the caller sees of an object; `None` when it sees nothing of it. It is called for every object and every event
    /// in the namespace, so it decides before it copies.
    fn project(
        &self,
        context: &RequestContext,
        source: &<Self::Source as Strategy>::Object,
    ) -> Option<Self::Object>;

    /// The columns of the server-side Table after the name and before the age.
    fn columns(&self) -> &'static [Column] {
        &[]
    }

    /// The cells of [`View::columns`], in their order.
    fn cells(&self, _object: &Self::Object) -> Vec<serde_json::Value> {
        Vec::new()
    }
}
