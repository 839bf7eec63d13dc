//! Configurations of server-side apply in request bodies.

use std::sync::Arc;

use machinery_merge::{Strictness, parse_yaml};
use serde_json::Value;

use crate::{ApiError, Reason, RequestContext, resource_name::ResourceName};

/// Configuration that a caller applies: the fields that it wants to own, with their values. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) configuration: Arc<Value>,
    /// True when the caller takes the fields of others.
    pub(crate) force: bool,
    /// Fields that the configuration has twice, and their treatment.
    duplicates: Arc<[String]>,
    strictness: Strictness,
}

impl Applied {
    /// Reads a configuration. It is YAML, and so JSON as well. Source of the rules and messages:
    /// `applyPatcher` in `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.
    pub(crate) fn read(bytes: &[u8], strictness: Strictness, force: bool) -> Result<Self, ApiError> {
        let bad = |message: String| ApiError::status(Reason::BadRequest, message);
        let parsed = parse_yaml(bytes).map_err(|error| bad(format!("error decoding patch: {error}")))?;
        if !parsed.value.is_object() {
            return Err(bad("error decoding patch: a configuration is an object".to_owned()));
        }
        let duplicates = parsed.duplicate_fields.into();
        Ok(Self { configuration: Arc::new(parsed.value), force, duplicates, strictness })
    }

    /// Warns of the fields that the configuration has twice, or refuses it for them. As upstream, this comes
    /// after the merge: a conflict is reported alone.
    pub(crate) fn report_duplicates(&self, context: &RequestContext) -> Result<(), ApiError> {
        for field in self.duplicates.iter() {
            let finding = format!("duplicate field {field:?}");
            match self.strictness {
                Strictness::Ignore => {}
                Strictness::Warn => context.warnings.add(finding),
                Strictness::Strict => {
                    let message = format!("error strict decoding patch: {finding}");
                    return Err(ApiError::status(Reason::BadRequest, message));
                }
            }
        }
        Ok(())
    }

    /// Refuses a configuration of another kind, or of none.
    pub(crate) fn check_type(&self, resource: &ResourceName) -> Result<(), ApiError> {
        let text = |field: &str| self.configuration.get(field).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if api_version == resource.api_version() && kind == resource.kind {
            return Ok(());
        }
        let prefix = if api_version.contains('/') { "" } else { "/" };
        let message = format!("invalid object type: {prefix}{api_version}, Kind={kind}");
        Err(ApiError::status(Reason::BadRequest, message))
    }

    /// Returns true when the configuration itself names the resourceVersion that it is for.
    pub(crate) fn names_version(&self) -> bool {
        let version = self.configuration.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        version.is_some_and(|version| !matches!(version, "" | "0"))
    }
}
