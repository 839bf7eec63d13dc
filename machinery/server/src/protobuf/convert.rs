//! Conversions between the messages and the types of k8s-openapi.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as api;

use super::messages::{
    DeleteOptions, FieldsV1, ListMeta, ManagedFieldsEntry, ObjectMeta, OwnerReference, PartialObjectMetadata,
    Preconditions, Status, StatusCause, StatusDetails, Time,
};

impl From<DeleteOptions> for api::DeleteOptions {
    fn from(message: DeleteOptions) -> Self {
        Self {
            dry_run: Some(message.dry_run).filter(|values| !values.is_empty()),
            grace_period_seconds: message.grace_period_seconds,
            ignore_store_read_error_with_cluster_breaking_potential: message.ignore_store_read_error,
            orphan_dependents: message.orphan_dependents,
            preconditions: message
                .preconditions
                .map(|Preconditions { uid, resource_version }| api::Preconditions { uid, resource_version }),
            propagation_policy: message.propagation_policy,
            ..Self::default()
        }
    }
}

impl From<&api::ObjectMeta> for PartialObjectMetadata {
    fn from(metadata: &api::ObjectMeta) -> Self {
        Self { metadata: Some(metadata.into()) }
    }
}

impl From<&api::ObjectMeta> for ObjectMeta {
    fn from(metadata: &api::ObjectMeta) -> Self {
        Self {
            name: text(metadata.name.as_ref()),
            generate_name: text(metadata.generate_name.as_ref()),
            namespace: text(metadata.namespace.as_ref()),
            self_link: text(metadata.self_link.as_ref()),
            uid: text(metadata.uid.as_ref()),
            resource_version: text(metadata.resource_version.as_ref()),
            generation: metadata.generation.unwrap_or_default(),
            creation_timestamp: metadata.creation_timestamp.as_ref().map(Into::into),
            deletion_timestamp: metadata.deletion_timestamp.as_ref().map(Into::into),
            deletion_grace_period_seconds: metadata.deletion_grace_period_seconds,
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            owner_references: metadata.owner_references.iter().flatten().map(Into::into).collect(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            managed_fields: metadata.managed_fields.iter().flatten().map(Into::into).collect(),
        }
    }
}

impl From<&api::OwnerReference> for OwnerReference {
    fn from(owner: &api::OwnerReference) -> Self {
        Self {
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            api_version: owner.api_version.clone(),
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        }
    }
}

impl From<&api::ManagedFieldsEntry> for ManagedFieldsEntry {
    fn from(entry: &api::ManagedFieldsEntry) -> Self {
        Self {
            manager: text(entry.manager.as_ref()),
            operation: text(entry.operation.as_ref()),
            api_version: text(entry.api_version.as_ref()),
            time: entry.time.as_ref().map(Into::into),
            fields_type: text(entry.fields_type.as_ref()),
            fields_v1: entry.fields_v1.as_ref().map(|fields| FieldsV1 { raw: fields.0.to_string().into() }),
            subresource: text(entry.subresource.as_ref()),
        }
    }
}

impl From<&api::Time> for Time {
    fn from(time: &api::Time) -> Self {
        Self { seconds: time.0.as_second() }
    }
}

impl From<&api::ListMeta> for ListMeta {
    fn from(metadata: &api::ListMeta) -> Self {
        Self {
            self_link: text(metadata.self_link.as_ref()),
            resource_version: text(metadata.resource_version.as_ref()),
            r#continue: text(metadata.continue_.as_ref()),
            remaining_item_count: metadata.remaining_item_count,
        }
    }
}

impl From<&api::Status> for Status {
    fn from(status: &api::Status) -> Self {
        Self {
            metadata: Some((&status.metadata).into()),
            status: text(status.status.as_ref()),
            message: text(status.message.as_ref()),
            reason: text(status.reason.as_ref()),
            details: status.details.as_ref().map(Into::into),
            code: status.code.unwrap_or_default(),
        }
    }
}

impl From<&api::StatusDetails> for StatusDetails {
    fn from(details: &api::StatusDetails) -> Self {
        Self {
            name: text(details.name.as_ref()),
            group: text(details.group.as_ref()),
            kind: text(details.kind.as_ref()),
            causes: details.causes.iter().flatten().map(Into::into).collect(),
            retry_after_seconds: details.retry_after_seconds.unwrap_or_default(),
            uid: text(details.uid.as_ref()),
        }
    }
}

impl From<&api::StatusCause> for StatusCause {
    fn from(cause: &api::StatusCause) -> Self {
        Self {
            reason: text(cause.reason.as_ref()),
            message: text(cause.message.as_ref()),
            field: text(cause.field.as_ref()),
        }
    }
}

fn text(value: Option<&String>) -> String {
    value.cloned().unwrap_or_default()
}
