//! The table of atoms.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use crate::{Atom, Node, SchemaError, convert::Converter};

/// Shape of a kind. Immutable and cheap to clone.
#[derive(Clone, Debug)]
pub struct Schema {
    atoms: Arc<[Atom]>,
    empty: Arc<Atom>,
    root: Node,
}

impl Schema {
    /// Reads the shape of the definition `root` from OpenAPI v3 schemas by name.
    ///
    /// Only definitions that `root` refers to are read. References are written as
    /// `{"$ref": "#/components/schemas/NAME"}`, alone or as the only part of an `allOf`.
    ///
    /// # Errors
    ///
    /// [`SchemaError::Unresolved`] for a reference without a definition, [`SchemaError::Unsupported`] for an
    /// unknown `type`, `x-kubernetes-list-type` or `x-kubernetes-map-type`, a keyed list without keys, and a
    /// list without items.
    pub fn new(definitions: &BTreeMap<String, Value>, root: &str) -> Result<Self, SchemaError> {
        let (atoms, root) = Converter::new(definitions).convert(root)?;
        Ok(Self { atoms: atoms.into(), empty: Arc::default(), root })
    }

    /// Returns the place of the whole document.
    pub fn root(&self) -> Node {
        self.root
    }

    /// Returns the kinds of values that a place accepts. A node of another schema may accept nothing.
    pub fn atom(&self, node: Node) -> &Atom {
        self.atoms.get(node.0).unwrap_or(&self.empty)
    }
}
