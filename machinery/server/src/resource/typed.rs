//! Bodies of types that Kubernetes itself has, such as `Scale`. As upstream, nothing but the type is checked.

use machinery_merge::{Parsed, Strictness, decode_parsed};
use machinery_schema::Schema;
use serde_json::Value;

use super::{
    body::{Body, check_type, refuse},
    patch::Patch,
};
use crate::{ApiError, Object, RequestContext, resource_name::ResourceName};

/// Returns the object in a body. Dropped fields become warnings.
pub(crate) fn decode_typed<O: Object>(context: &RequestContext, body: &Body) -> Result<O, ApiError> {
    let resource = ResourceName::of::<O>();
    let mut parsed = body.parse(&resource)?;
    check_type(&resource, &parsed.value)?;
    drop_types(&mut parsed.value);
    let decoded = decode_parsed(parsed, body.strictness).map_err(|error| refuse(&resource, &error))?;
    for finding in decoded.findings() {
        context.warnings.add(finding);
    }
    Ok(decoded.value)
}

/// Returns a document of that shape with a patch applied. Dropped fields become warnings.
pub(crate) fn patch_typed<O: Object>(
    context: &RequestContext,
    patch: &Patch,
    document: &Value,
    shape: &Schema,
) -> Result<O, ApiError> {
    let resource = ResourceName::of::<O>();
    let mut patched = patch.patched(document, shape)?;
    check_type(&resource, &patched.value)?;
    drop_types(&mut patched.value);
    let parsed = Parsed { value: patched.value, ..Parsed::default() };
    let decoded = decode_parsed(parsed, Strictness::Warn).map_err(|error| refuse(&resource, &error))?;
    patched.findings.extend(decoded.findings());
    patch.report(context, patched.findings)?;
    Ok(decoded.value)
}

/// Returns the object of a document that the server has made. Unknown fields are dropped.
pub(crate) fn decode_typed_value<O: Object>(
    resource: &ResourceName,
    mut value: Value,
) -> Result<O, ApiError> {
    check_type(resource, &value)?;
    drop_types(&mut value);
    let parsed = Parsed { value, ..Parsed::default() };
    let decoded = decode_parsed(parsed, Strictness::Ignore).map_err(|error| refuse(resource, &error))?;
    Ok(decoded.value)
}

/// Removes `apiVersion` and `kind`, which were compared. The decoder does not accept empty ones.
fn drop_types(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
}
