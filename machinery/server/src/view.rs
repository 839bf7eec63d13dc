//! Views: read-only virtual resources, made from stored ones.

use crate::{ApiError, Column, KindInfo, Object, RequestContext, Strategy};

/// Read-only resource that shows each caller its projection of the objects of a stored one.
///
/// # Guarantees
///
/// Names, namespaces, UIDs and resourceVersions are the stored object's. A watch reports an object that
/// leaves the projection as deleted and one that enters it as added; bookmarks go through.
pub trait View: Send + Sync + 'static {
    /// Strategy of the stored kind.
    type Source: Strategy;

    /// Kind that is shown.
    type Object: Object;

    /// Returns the names of the kind.
    fn info(&self) -> KindInfo;

    /// Checks that the caller has a view at all; called once a request, before anything is read.
    ///
    /// # Errors
    ///
    /// The reason for the caller, usually a 403.
    fn admit(&self, context: &RequestContext) -> Result<(), ApiError>;

    /// Returns the only namespace in which the caller can see anything; `None` when there is no such one. A
    /// list or a watch over all namespaces then reads only that one.
    fn namespace(&self, _context: &RequestContext) -> Option<String> {
        None
    }

    /// Returns a selectable field of the source, and its value in all objects that the caller can see; `None`
    /// when there is no such field. Objects with other values are passed over quickly.
    fn field(&self, _context: &RequestContext) -> Option<(&'static str, String)> {
        None
    }

    /// Returns true when every caller may list the view. If not, discovery omits the verb `list`: clients
    /// such as `kubectl get` of all kinds list each kind that has it, and report the 403.
    fn every_caller_may_list(&self) -> bool {
        true
    }

    /// Returns the caller's projection of an object; `None` when the caller does not see it. It is called for
    /// every object and every event in the namespace, so it decides before it copies.
    fn project(
        &self,
        context: &RequestContext,
        source: &<Self::Source as Strategy>::Object,
    ) -> Option<Self::Object>;

    /// Returns the columns of the server-side Table after the name and before the age.
    fn columns(&self) -> &'static [Column] {
        &[]
    }

    /// Returns the cells of [`View::columns`], in their order.
    fn cells(&self, _object: &Self::Object) -> Vec<serde_json::Value> {
        Vec::new()
    }
}
