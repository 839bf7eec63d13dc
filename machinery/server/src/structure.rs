//! Structural schema of a kind, derived from its type.

use machinery_openapi::{DocumentError, GroupVersion, Structure};
use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};

use crate::{ApiError, Object, resource_name::ResourceName};

/// Structural schema of the kind `O`, or the reason that there is none. A server whose kinds have no schema
/// cannot be built, so requests find one.
#[derive(Debug)]
pub(crate) struct KindStructure(Result<Structure, DocumentError>);

impl KindStructure {
    /// Derives the structure from the type.
    pub(crate) fn of<O: Object>() -> Self {
        let ResourceName { group, version, kind, .. } = ResourceName::of::<O>();
        Self(Structure::new(&kind, &GroupVersion { group, version }, &schema_of::<O>()))
    }

    /// Returns the structure.
    pub(crate) fn get(&self) -> Result<&Structure, ApiError> {
        self.0
            .as_ref()
            .map_err(|error| ApiError::internal("reading the schema of the kind", error.to_string()))
    }
}

/// Returns the JSON schema of a kind.
pub(crate) fn schema_of<O: Object>() -> Schema {
    SchemaGenerator::new(SchemaSettings::draft2020_12()).into_root_schema_for::<O>()
}
