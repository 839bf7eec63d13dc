//! Strategic merge patches: merge patches that merge lists by the keys of their items.
//!
//! Source of the rules: `k8s.io/apimachinery/pkg/util/strategicpatch`.

mod directive;
mod fields;
mod items;
mod order;

use machinery_schema::Schema;
use serde_json::Value;

use crate::{Parsed, PatchError, Patched, finding::findings, patch::parse};

/// Maximum number of items in the lists of a strategic merge patch that are merged, and in its
/// `$retainKeys`. Each item of a list is compared with every item of the object's list.
pub const MAX_STRATEGIC_PATCH_ITEMS: usize = 1000;

/// Maximum number of such comparisons: the sum, over the merged lists, of the items in the patch times those
/// in the object.
pub const MAX_STRATEGIC_COMPARISONS: usize = 1_000_000;

/// Parsed strategic merge patch.
///
/// Maps are merged field by field, as in a merge patch (RFC 7386). Lists are merged as the schema of the kind
/// says ([`ListPatch`](machinery_schema::ListPatch)); without a word from it the list of the patch replaces
/// the object's.
///
/// # Directives
///
/// - `$patch: replace` in a map puts it in the place of the object's; in an item, the list of the patch
///   replaces the object's.
/// - `$patch: delete` in a map empties the object's; in an item, it removes those of the same key.
/// - `$retainKeys` in a map removes the fields that it does not list.
/// - `$deleteFromPrimitiveList/FIELD` removes scalars from a list.
/// - `$setElementOrder/FIELD` sorts a list. Items that it does not name keep their place among them.
///
/// # Differences
///
/// Upstream finds an item by its merge key alone. Here the other keys of the list
/// (`x-kubernetes-list-map-keys`) count too, as far as both items have them: a list in which only all keys
/// together are unique can be merged. A patch is refused when one of its items fits two, where upstream takes
/// the first; `$patch: delete` removes all that it fits. New items come after those of the object that the
/// patch does not name, and not before them. Other strategies than `merge` have no effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StrategicPatch(Parsed);

impl StrategicPatch {
    /// Reads a patch.
    ///
    /// # Errors
    ///
    /// [`PatchError::Malformed`] when the bytes are not a JSON object.
    pub fn parse(patch: &[u8]) -> Result<Self, PatchError> {
        let parsed = parse(patch)?;
        if parsed.value.is_object() {
            return Ok(Self(parsed));
        }
        Err(PatchError::Malformed { message: "a strategic merge patch is a JSON object".to_owned() })
    }

    /// Returns the content.
    pub fn content(&self) -> &Value {
        &self.0.value
    }

    /// Returns the content, for a caller that fills in keys of list items.
    pub fn content_mut(&mut self) -> &mut Value {
        &mut self.0.value
    }

    /// Applies the patch to a document of a kind.
    ///
    /// # Errors
    ///
    /// [`PatchError::Malformed`] for a directive of a wrong shape, [`PatchError::TooManyItems`] beyond
    /// [`MAX_STRATEGIC_PATCH_ITEMS`], [`PatchError::TooManyComparisons`] beyond
    /// [`MAX_STRATEGIC_COMPARISONS`], and [`PatchError::Unmergeable`] for a list item without its merge key,
    /// one that fits more than one item, and a list whose order does not fit its items. Nothing is applied
    /// then.
    pub fn apply(&self, document: &Value, schema: &Schema) -> Result<Patched, PatchError> {
        let Parsed { value, duplicate_fields } = &self.0;
        let findings = findings(&[], duplicate_fields);
        let mut patched = document.clone();
        let mut merge = fields::Merge::new(schema);
        if let (Value::Object(live), Value::Object(patch)) = (&mut patched, value) {
            merge.map(live, patch, Some(schema.root()), "")?;
        }
        Ok(Patched { value: patched, findings, removes_only_named_items: !merge.removed_unnamed() })
    }
}
