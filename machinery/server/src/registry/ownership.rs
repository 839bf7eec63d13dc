//! Ownership of fields: `metadata.managedFields`, on every write.
//!
//! The record is made from what the caller sent, after the defaults and before the strategy's own changes:
//! nobody owns what the server sets. Source of the order: the handlers in
//! `k8s.io/apiserver/pkg/endpoints/handlers`.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry},
    jiff::Timestamp,
};
use machinery_apply::{ApplyError, FieldSet, PathElement, Writer};
use serde_json::Value;

use super::{Part, Registry};
use crate::{ApiError, Cause, Reason, RequestContext, Strategy, resource::Applied, stored::Stored};

/// Maximum size of a record of ownership in bytes, for a kind whose objects may be larger: a third of what
/// etcd takes in a write.
const MAX_RECORD_BYTES: usize = 512 * 1024;

/// Fields that a write does not change, whatever the caller sends. It owns none of them.
#[derive(Debug)]
pub(super) struct ResetFields {
    main: FieldSet,
    status: FieldSet,
}

impl ResetFields {
    /// The fields of a kind, with or without a subresource `status`.
    pub(super) fn new(has_status: bool) -> Self {
        let fields = |names: &[&str]| {
            let mut fields = FieldSet::new();
            for name in names {
                fields.insert(&[PathElement::Field((*name).into())]);
            }
            fields
        };
        let main: &[&str] = if has_status { &["status"] } else { &[] };
        Self { main: fields(main), status: fields(&["metadata", "spec"]) }
    }

    fn of(&self, part: Part) -> &FieldSet {
        match part {
            Part::Main | Part::Scale => &self.main,
            Part::Status => &self.status,
        }
    }
}

impl<S: Strategy> Registry<S> {
    /// Records in an object which fields its writer owns now. `old` is absent at the creation.
    ///
    /// As upstream, a record that cannot be made does not fail the write: the old one stays.
    pub(super) fn track(
        &self,
        context: &RequestContext,
        part: Part,
        old: Option<&Stored<S::Object>>,
        object: &mut S::Object,
    ) -> Result<(), ApiError> {
        let given = &mut kube::Resource::meta_mut(object).managed_fields;
        if given.as_ref().is_some_and(|entries| self.check_record(entries).is_err()) {
            *given = None;
        }
        if given.as_ref().is_some_and(|entries| {
            self.takes_part(context, entries, old) || self.check_shares(entries).is_err()
        }) {
            *given = old.and_then(|old| kube::Resource::meta(&**old).managed_fields.clone());
        }
        let version = self.version(context);
        let live = old.map(|old| self.value_of(context, old)).transpose()?;
        let written = self.value_of(context, object)?;
        let api_version = version.name().api_version();
        let writer = writer(context, &api_version);
        let reset = self.reset_fields.of(part);
        let tracked = machinery_apply::track(&*self.versions, live.as_ref(), &written, &writer, reset);
        let entries = match tracked {
            Ok(entries) => Some(entries),
            Err(error) => {
                tracing::warn!(resource = %self.resource, %error, "field ownership is not recorded");
                old.and_then(|old| kube::Resource::meta(&**old).managed_fields.clone())
            }
        };
        kube::Resource::meta_mut(object).managed_fields = self.record(entries.unwrap_or_default(), false)?;
        Ok(())
    }

    /// Returns a record as it is stored. One that is too large fails an apply. As upstream, other writes do
    /// without it.
    pub(super) fn record(
        &self,
        entries: Vec<ManagedFieldsEntry>,
        is_apply: bool,
    ) -> Result<Option<Vec<ManagedFieldsEntry>>, ApiError> {
        let shares = if is_apply { self.check_shares(&entries) } else { Ok(()) };
        match shares.and_then(|()| self.check_record(&entries)) {
            Err(error) if is_apply => Err(error),
            Ok(()) if !entries.is_empty() => Ok(Some(entries)),
            _ => Ok(None),
        }
    }

    /// Merges an applied configuration into the object of that name, and records the ownership. `old` is
    /// absent when the object does not exist.
    pub(super) async fn merge(
        &self,
        context: &RequestContext,
        part: Part,
        name: &str,
        old: Option<&Stored<S::Object>>,
        applied: &Applied,
    ) -> Result<S::Object, ApiError> {
        let version = self.version(context);
        let live = old.map(|old| self.value_of(context, old)).transpose()?;
        let api_version = version.name().api_version();
        let writer = writer(context, &api_version);
        let mut configuration = Value::clone(&applied.configuration);
        self.strategy.complete_partial(context, name, &mut configuration).await?;
        let given = configuration.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        self.check_parts(given, &configuration, None)?;
        let merged = machinery_apply::apply(
            &*self.versions,
            live.as_ref(),
            &configuration,
            &writer,
            applied.force,
            self.reset_fields.of(part),
        );
        let merged = merged.map_err(|error| refused(&error))?;
        applied.report_duplicates(context)?;
        let record = self.record(merged.managed_fields, true)?;
        // As upstream, these come before the content.
        match &live {
            None => self.check_new_names(name, &configuration)?,
            Some(live) if part == Part::Main => {
                crate::resource::check_name(context, live, &merged.object)?;
            }
            Some(_) => {}
        }
        let mut object = version.decode_merged(context, merged.object)?;
        if let Some(old) = old {
            self.strategy.complete_merged(context, &mut object, old);
        }
        let meta = kube::Resource::meta_mut(&mut object);
        // As upstream, the UID in a configuration of the status does not matter.
        if part == Part::Status {
            meta.uid = None;
        }
        meta.managed_fields = record;
        // An apply removes only what its manager owns. It is for the version that it was merged with.
        if !applied.names_version() {
            meta.resource_version = old.and_then(|old| kube::Resource::meta(&**old).resource_version.clone());
        }
        Ok(object)
    }

    /// Refuses a record of ownership that is larger than an object may be, or than [`MAX_RECORD_BYTES`]. It
    /// takes no room from the object's other parts. Any number of managers can apply: kube-apiserver, too,
    /// limits those of other operations only.
    fn check_record(&self, entries: &[ManagedFieldsEntry]) -> Result<(), ApiError> {
        self.check_record_size(&entries.iter().collect::<Vec<_>>(), self.record_limit(), "")
    }

    /// Refuses a record in which the applies of one user take more than a quarter of the room. Otherwise one
    /// user, by the names of many managers, would leave no room for the applies of others.
    fn check_shares(&self, entries: &[ManagedFieldsEntry]) -> Result<(), ApiError> {
        let mut by_user: HashMap<String, Vec<&ManagedFieldsEntry>> = HashMap::new();
        let applies = entries.iter().filter(|entry| entry.operation.as_deref() == Some("Apply"));
        for entry in applies {
            if let Some(owners) = self.owners(entry) {
                by_user.entry(owners.into_iter().next().unwrap_or_default()).or_default().push(entry);
            }
        }
        for (user, entries) in by_user {
            let whose =
                if user.is_empty() { "without a user".to_owned() } else { format!("by user {user:?}") };
            self.check_record_size(&entries, self.record_limit() / 4, &format!(" for applies {whose}"))?;
        }
        Ok(())
    }

    /// Returns the users whose list entries a part of a record names.
    fn owners(&self, entry: &ManagedFieldsEntry) -> Option<BTreeSet<String>> {
        let fields = entry.fields_v1.as_ref().map_or(&Value::Null, |FieldsV1(fields)| fields);
        self.strategy.entry_owners(fields)
    }

    /// Returns true when a record that a caller sends makes it an owner of list entries of others.
    fn takes_part(
        &self,
        context: &RequestContext,
        given: &[ManagedFieldsEntry],
        old: Option<&Stored<S::Object>>,
    ) -> bool {
        let known = old.and_then(|old| kube::Resource::meta(&**old).managed_fields.as_ref());
        let new = given.iter().filter(|entry| known.is_none_or(|known| !known.contains(entry)));
        let mut applied = new.filter(|entry| entry.operation.as_deref() == Some("Apply"));
        applied.any(|entry| self.owners(entry).iter().flatten().any(|owner| *owner != context.user.name))
    }

    fn record_limit(&self) -> usize {
        self.quota.limits().object_bytes.min(MAX_RECORD_BYTES)
    }

    fn check_record_size(
        &self,
        entries: &[&ManagedFieldsEntry],
        limit: usize,
        whose: &str,
    ) -> Result<(), ApiError> {
        let size = serde_json::to_vec(entries)
            .map_err(|source| ApiError::internal("encoding metadata.managedFields", source))?
            .len();
        if size > limit {
            let message = format!(
                "Request entity too large: metadata.managedFields of {} would have {size} bytes{whose}: limit is {limit}; a merge patch of managedFields to [{{}}] resets them",
                self.resource
            );
            return Err(ApiError::status(Reason::RequestEntityTooLarge, message));
        }
        Ok(())
    }
}

pub(super) fn writer<'a>(context: &'a RequestContext, api_version: &'a str) -> Writer<'a> {
    Writer {
        manager: &context.field_manager,
        api_version,
        subresource: &context.subresource,
        now: Timestamp::from_second(context.now.timestamp()).unwrap_or(Timestamp::UNIX_EPOCH),
    }
}

/// Maps the failure of an apply. A conflict has a cause for each field, as upstream. A configuration that
/// does not fit the schema is the caller's mistake; kube-apiserver answers 500.
pub(super) fn refused(error: &ApplyError) -> ApiError {
    let reason = match error {
        ApplyError::Conflicts(_) => Reason::Conflict,
        ApplyError::Invalid { role: "patch", .. } => Reason::BadRequest,
        error if error.code() == 400 => Reason::BadRequest,
        error => return ApiError::internal("applying a configuration", error.to_string()),
    };
    let causes = error.causes().into_iter().map(|cause| Cause {
        reason: cause.reason.unwrap_or_default(),
        message: cause.message.unwrap_or_default(),
        field: cause.field.unwrap_or_default(),
    });
    ApiError::Status {
        reason,
        message: error.to_string(),
        causes: causes.collect(),
        retry_after_seconds: None,
    }
}
