//! Writes of whole objects.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use machinery_schema::Schema;
use serde_json::Value;

use super::{
    cap::cap,
    codec::{Managed, whole_seconds},
    last_applied, object,
    strip_meta::strip,
};
use crate::{
    ApplyError, FieldSet, Updater, Versions,
    managers::{ManagerId, Operation},
    typed::{Duplicates, validate},
    value,
};

/// Maximum nesting of a document, which bounds every recursion. The JSON parser has the same limit.
const MAX_DEPTH: usize = 128;
/// Manager of the fields that were there before anything was applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
const UNKNOWN: &str = "unknown";

/// Writer of an object.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// Name of the manager: the parameter `fieldManager`, or that of the user agent. Empty means unknown.
    pub manager: &'a str,
    /// API version of the request and of all its documents, such as `apps/v1`; one of those served.
    pub api_version: &'a str,
    /// Subresource, such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// Time of the request. Its fraction of a second is dropped.
    pub now: Timestamp,
}

/// Result of a server-side apply.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The merged object, without managed fields.
    pub object: Value,
    /// The managed fields of the merged object; empty when there are none.
    pub managed_fields: Vec<ManagedFieldsEntry>,
    /// False when the object is equal to the live one. Its managed fields may differ still.
    pub changed: bool,
}

/// Returns the managed fields of an object after an update, patch or creation.
///
/// # Flow
///
/// - The owners are read from `new`, so that a client can change them: `[]` and `[{}]` reset them. When `new`
///   has none or malformed ones, and for a subresource, they are read from `live`.
/// - An existing object without owners stays without, until something is applied to it.
/// - The writer owns what it changed and added. Fields that it removed have no owner.
/// - The oldest updates become one manager, `ancient-changes`, when there are more than 10.
///
/// `live` is None at creation. An object without `metadata.uid` counts as not created yet, too. `reset` are
/// the fields that the request does not write, with all that lies below them.
///
/// # Errors
///
/// [`ApplyError::Invalid`] and [`ApplyError::Incomparable`]. A server should keep the managed fields of the
/// live object then, as kube-apiserver does. [`ApplyError::TooDeep`].
pub fn track(
    versions: &dyn Versions,
    live: Option<&Value>,
    new: &Value,
    writer: &Writer<'_>,
    reset: &FieldSet,
) -> Result<Vec<ManagedFieldsEntry>, ApplyError> {
    let live = live.map_or_else(|| Cow::Owned(object::empty(new)), Cow::Borrowed);
    check_depth(&[&live, new])?;
    let managed = decode_live_or_new(&live, new, !writer.subresource.is_empty());
    if managed.managers.is_empty() && !object::metadata_text(&live, "uid").is_empty() {
        return Ok(Vec::new());
    }
    let tracker = Tracker::new(versions, writer, reset)?;
    Ok(tracker.update(&live, new, managed, writer.manager)?.encode())
}

/// Merges an applied document into an object.
///
/// # Flow
///
/// - Fields of `applied` replace those of `live`; fields that the manager applied before and does not apply
///   now are removed, unless another manager owns them.
/// - Fields of an object without owners belong to the manager `before-first-apply`.
/// - The manager `kubectl` takes fields without conflict that its last client-side apply set and that are
///   unchanged since. The annotation of that configuration is renewed.
///
/// `live` is None at creation.
///
/// # Errors
///
/// [`ApplyError::Conflicts`] without `force` when other managers own fields that would change. The variants
/// for documents that are unusable otherwise.
pub fn apply(
    versions: &dyn Versions,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    force: bool,
    reset: &FieldSet,
) -> Result<Applied, ApplyError> {
    let live = live.map_or_else(|| Cow::Owned(object::empty(applied)), Cow::Borrowed);
    check_depth(&[&live, applied])?;
    let entries = object::managed_fields(&live).unwrap_or_default();
    let managed = Managed::decode(&entries).map_err(ApplyError::ManagedFields)?;
    let found = object::text(applied, "apiVersion");
    if found != writer.api_version {
        let (found, expected) = (found.to_owned(), writer.api_version.to_owned());
        return Err(ApplyError::WrongVersion { found, expected });
    }
    let tracker = Tracker::new(versions, writer, reset)?;
    let (merged, managed) = tracker.apply(&live, applied, managed, force)?;
    let mut changed = merged.is_some();
    let mut object = merged.unwrap_or_else(|| live.into_owned());
    object::remove_managed_fields(&mut object);
    if writer.manager == last_applied::KUBECTL {
        changed |= last_applied::renew(&mut object, applied);
    }
    Ok(Applied { object, managed_fields: managed.encode(), changed })
}

fn check_depth(documents: &[&Value]) -> Result<(), ApplyError> {
    let deep = documents.iter().any(|document| value::depth(document, MAX_DEPTH) > MAX_DEPTH);
    if deep { Err(ApplyError::TooDeep { limit: MAX_DEPTH }) } else { Ok(()) }
}

/// Returns the owners that a request starts from.
fn decode_live_or_new(live: &Value, new: &Value, ignore_new: bool) -> Managed {
    let given = if ignore_new { None } else { object::managed_fields(new) };
    if let Some(entries) = given {
        let reset = match entries.as_slice() {
            [] => true,
            [only] => *only == ManagedFieldsEntry::default(),
            _ => false,
        };
        match Managed::decode(&entries) {
            _ if reset => return Managed::default(),
            Ok(managed) if !managed.managers.is_empty() => return managed,
            _ => {}
        }
    }
    Managed::decode(&object::managed_fields(live).unwrap_or_default()).unwrap_or_default()
}

struct Tracker<'a> {
    versions: &'a dyn Versions,
    /// The schema of the version of the request.
    schema: &'a Schema,
    writer: &'a Writer<'a>,
    reset: &'a FieldSet,
}

impl<'a> Tracker<'a> {
    fn new(
        versions: &'a dyn Versions,
        writer: &'a Writer<'a>,
        reset: &'a FieldSet,
    ) -> Result<Self, ApplyError> {
        let schema = versions.schema(writer.api_version).ok_or_else(|| ApplyError::Unconvertible {
            version: writer.api_version.to_owned(),
            why: "it is not served".to_owned(),
        })?;
        Ok(Self { versions, schema, writer, reset })
    }

    fn id(&self, manager: &str, operation: Operation) -> ManagerId {
        let manager = if manager.is_empty() { UNKNOWN } else { manager };
        ManagerId::new(manager, operation, self.writer.api_version, self.writer.subresource)
    }

    fn check(&self, document: &Value, role: &'static str, duplicates: Duplicates) -> Result<(), ApplyError> {
        validate(self.schema, document, duplicates).map_err(|errors| ApplyError::Invalid {
            role,
            object: object::describe(document),
            errors,
        })
    }

    /// Adds an update to the managers. `name` takes over what it changed, also from its own earlier
    /// updates, and keeps the rest of those.
    fn update(&self, live: &Value, new: &Value, managed: Managed, name: &str) -> Result<Managed, ApplyError> {
        self.check(new, "new", Duplicates::Allow)?;
        self.check(live, "live", Duplicates::Allow)?;
        let Managed { managers, times } = managed;
        let current = ManagerId::in_progress();
        let managers = self.updater().update(live, new, managers, &current)?;
        let mut managed = Managed { managers, times };
        strip(&mut managed.managers, &current);
        if let Some(mut owned) = managed.managers.remove(&current) {
            let id = self.id(name, Operation::Update);
            if let Some(before) = managed.managers.get(&id) {
                owned.set = owned.set.union(&before.set);
            }
            managed.managers.insert(id.clone(), owned);
            managed.times.insert(id, whole_seconds(self.writer.now));
        }
        cap(&mut managed);
        Ok(managed)
    }

    fn apply(
        &self,
        live: &Value,
        applied: &Value,
        mut managed: Managed,
        force: bool,
    ) -> Result<(Option<Value>, Managed), ApplyError> {
        if managed.managers.is_empty() {
            managed = self.update(&object::empty(applied), live, managed, BEFORE_FIRST_APPLY)?;
        }
        if object::has_managed_fields(applied) {
            return Err(ApplyError::ManagedFieldsGiven);
        }
        self.check(applied, "patch", Duplicates::Deny)?;
        self.check(live, "live", Duplicates::Allow)?;
        let id = self.id(self.writer.manager, Operation::Apply);
        let updater = self.updater();
        let migrates = self.writer.manager == last_applied::KUBECTL && !force;
        let Managed { managers, mut times } = managed;
        let before = migrates.then(|| managers.clone());
        let (merged, mut managers) = match (updater.apply(live, applied, managers, &id, force), before) {
            (Err(ApplyError::Conflicts(conflicts)), Some(before)) => {
                let api_version = self.writer.api_version;
                let conflicts = last_applied::inexcusable(self.schema, live, api_version, conflicts);
                if !conflicts.is_empty() {
                    return Err(ApplyError::Conflicts(conflicts));
                }
                updater.apply(live, applied, before, &id, true)?
            }
            (result, _) => result?,
        };
        strip(&mut managers, &id);
        if merged.is_some() {
            times.insert(id, whole_seconds(self.writer.now));
        }
        Ok((merged, Managed { managers, times }))
    }

    fn updater(&self) -> Updater<'a> {
        let Self { versions, schema, writer, reset } = *self;
        Updater { schema, api_version: writer.api_version, versions, ignored: reset }
    }
}
