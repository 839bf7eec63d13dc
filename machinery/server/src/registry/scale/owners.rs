//! Ownership of the number of replicas.
//!
//! A write of the scale is tracked as a write of an object of its own: one whose owners are those of the
//! number of replicas. Then they become the owners in the object again.

use k8s_openapi::{api::autoscaling::v1::Scale, apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry};
use machinery_apply::{ApplyError, FieldSet, ManagedFieldsError, OneVersion, object_entries, scale_entries};

use crate::{
    ApiError, RequestContext, Strategy,
    registry::{Registry, ownership},
    resource::{Applied, decode_typed_value},
    resource_name::ResourceName,
    stored::{Stored, to_value},
    structure::KindStructure,
};

/// API version of scales.
const SCALE_VERSION: &str = "autoscaling/v1";

impl<S: Strategy> Registry<S> {
    /// Gives the scale of an object the owners of its number of replicas.
    pub(super) fn show_owners(&self, scale: &mut Scale, old: &Stored<S::Object>) -> Result<(), ApiError> {
        let entries = kube::Resource::meta(&**old).managed_fields.as_deref().unwrap_or_default();
        let shown = scale_entries(entries, &self.replicas_paths).map_err(unreadable)?;
        scale.metadata.managed_fields = Some(shown).filter(|entries| !entries.is_empty());
        Ok(())
    }

    /// Returns the owners in an object whose scale has these entries.
    pub(super) fn owners_of_scale(
        &self,
        api_version: &str,
        scale: &[ManagedFieldsEntry],
        old: &Stored<S::Object>,
    ) -> Result<Vec<ManagedFieldsEntry>, ApiError> {
        let entries = kube::Resource::meta(&**old).managed_fields.as_deref().unwrap_or_default();
        object_entries(entries, scale, api_version, &self.replicas_paths).map_err(unreadable)
    }
}

/// Records in a scale who owns the number of replicas now.
///
/// As upstream, a record that cannot be made does not fail the write: the old one stays.
pub(super) fn track(
    context: &RequestContext,
    structure: &KindStructure,
    live: &Scale,
    scale: &mut Scale,
) -> Result<(), ApiError> {
    let versions = OneVersion { api_version: SCALE_VERSION, schema: structure.get()?.shape() };
    let writer = ownership::writer(context, SCALE_VERSION);
    let (before, after) = (to_value(live)?, to_value(scale)?);
    let tracked = machinery_apply::track(&versions, Some(&before), &after, &writer, &FieldSet::new());
    scale.metadata.managed_fields = match tracked {
        Ok(entries) => Some(entries).filter(|entries| !entries.is_empty()),
        Err(error) => {
            tracing::warn!(%error, "ownership of the number of replicas is not recorded");
            live.metadata.managed_fields.clone()
        }
    };
    Ok(())
}

/// Merges an applied configuration into a scale, and records the ownership.
pub(super) fn merge(
    context: &RequestContext,
    structure: &KindStructure,
    live: &Scale,
    applied: &Applied,
) -> Result<Scale, ApiError> {
    let versions = OneVersion { api_version: SCALE_VERSION, schema: structure.get()?.shape() };
    let writer = ownership::writer(context, SCALE_VERSION);
    let merged = machinery_apply::apply(
        &versions,
        Some(&to_value(live)?),
        &applied.configuration,
        &writer,
        applied.force,
        &FieldSet::new(),
    );
    let merged = merged.map_err(|error: ApplyError| ownership::refused(&error))?;
    applied.report_duplicates(context)?;
    let mut scale: Scale = decode_typed_value(&ResourceName::of::<Scale>(), merged.object)?;
    scale.metadata.managed_fields = Some(merged.managed_fields).filter(|entries| !entries.is_empty());
    Ok(scale)
}

fn unreadable(error: ManagedFieldsError) -> ApiError {
    ApiError::internal("reading the owners of the number of replicas", error)
}
