//! The kinds of values that one place of a document accepts.

use std::collections::BTreeMap;

use serde_json::Value;

/// Reference to one [`Atom`] of a [`Schema`](crate::Schema). It is meaningless for any other schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub(crate) usize);

/// Kinds of values that a place accepts. A place with several accepts any of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Atom {
    /// Scalars that are accepted.
    pub scalar: Option<Scalar>,
    /// Lists that are accepted.
    pub list: Option<List>,
    /// Maps and structs that are accepted.
    pub map: Option<Map>,
}

/// Type of a scalar. Null is a value of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Any number, text or boolean.
    Untyped,
    /// Text.
    String,
    /// An integer or a floating-point number.
    Number,
    /// True or false.
    Boolean,
}

/// List of items of one shape.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// Shape of the items.
    pub items: Node,
    /// Identity of the items.
    pub kind: ListKind,
    /// Effect of a strategic merge patch on the list.
    pub patch: ListPatch,
}

/// Effect of a strategic merge patch on a list: `x-kubernetes-patch-strategy` and
/// `x-kubernetes-patch-merge-key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListPatch {
    /// The list of the patch replaces the list.
    #[default]
    Replace,
    /// The items of the patch join the list. They are scalars.
    MergeScalars,
    /// The items of the patch are merged with those that have the same value in this field.
    MergeBy(String),
}

/// Identity of the items of a list: `x-kubernetes-list-type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// The list is owned and replaced as a whole.
    Atomic,
    /// The items are scalars, each of which is its own identity.
    Set,
    /// The items are maps. These fields identify an item; there is at least one.
    Map(Vec<String>),
}

/// Map or struct.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    /// Declared fields by name.
    pub fields: BTreeMap<String, Field>,
    /// Shape of the other fields. Without it there are none.
    pub additional: Option<Node>,
    /// True when the map is owned and replaced as a whole.
    pub atomic: bool,
    /// True when nothing is known of the fields, so that a change of atomicity cannot be seen.
    pub deduced: bool,
}

/// Declared field of a [`Map`].
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Shape of the field.
    pub node: Node,
    /// Value that the field has when a document lacks it.
    pub default: Option<Value>,
}

impl Map {
    /// Returns the shape of a field, declared or not. None means that the field must not be there.
    pub fn node(&self, field: &str) -> Option<Node> {
        self.fields.get(field).map(|field| field.node).or(self.additional)
    }
}

impl List {
    /// Returns whether the list is owned and replaced as a whole.
    pub fn is_atomic(&self) -> bool {
        self.kind == ListKind::Atomic
    }
}
