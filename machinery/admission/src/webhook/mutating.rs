//! Mutating webhooks: one after another, in the order of their configurations' names.

use std::{collections::HashSet, sync::Arc};

use machinery_merge::json_patch;
use machinery_server::{AdmissionAttributes, ApiError, MutableObject};
use serde_json::Value;

use super::{
    call::{Caller, HookKind},
    hook::Hook,
};
use crate::{
    form::{Form, Forms},
    refusal,
    subject::{NamespaceMetadata, Subject},
};

/// Calls the webhooks that apply to a write, one after another. When one changes the object, those before it
/// that ask for it are called once more at the end, as upstream.
pub(crate) async fn mutate(
    caller: &Caller,
    hooks: &[Arc<Hook>],
    namespaces: &dyn NamespaceMetadata,
    attributes: &AdmissionAttributes<'_>,
    mut object: Option<&mut (dyn MutableObject + '_)>,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let mut reinvocable = Vec::new();
    let mut again = HashSet::new();
    for reinvocation in [false, true] {
        if reinvocation && again.is_empty() {
            break;
        }
        for (index, hook) in hooks.iter().enumerate() {
            if reinvocation && !again.contains(&index) {
                continue;
            }
            let value = object.as_deref().map(MutableObject::value);
            let subject = Subject { attributes, version: attributes.version, object: value, old, namespaces };
            let Some(form) = caller.should_call(hook, &subject, &mut Forms::default()).await? else {
                continue;
            };
            let allowed = caller.call(HookKind::Mutating, hook, &form.show(&subject)).await?;
            let patch = allowed.map(|allowed| allowed.patch).unwrap_or_default();
            let patched = patched(hook, &form, &subject, &patch)?;
            if replace(object.as_deref_mut(), patched)? {
                again.extend(reinvocable.drain(..));
            }
            if hook.reinvoked {
                reinvocable.push(index);
            }
        }
    }
    Ok(())
}

/// Returns the object with a patch, in the version of the request; `None` when nothing changes.
fn patched(hook: &Hook, form: &Form, subject: &Subject<'_>, patch: &[u8]) -> Result<Option<Value>, ApiError> {
    let name = &hook.name;
    if patch.is_empty() {
        return Ok(None);
    }
    let Some(before) = form.show(subject).object else {
        let empty = serde_json::from_slice::<Vec<Value>>(patch).is_ok_and(|patch| patch.is_empty());
        let why = format!(
            "admission webhook {name:?} attempted to modify the object, which is not supported for this operation"
        );
        return if empty { Ok(None) } else { Err(refusal::internal(&why)) };
    };
    let patched = json_patch(before, patch)
        .map_err(|error| refusal::internal(&format!("patch of admission webhook {name:?}: {error}")))?;
    if patched.value == *before {
        return Ok(None);
    }
    form.convert_back(subject, patched.value).map(Some)
}

/// Replaces the object. Returns true when it is another one afterwards.
fn replace(object: Option<&mut (dyn MutableObject + '_)>, patched: Option<Value>) -> Result<bool, ApiError> {
    let (Some(object), Some(patched)) = (object, patched) else { return Ok(false) };
    let before = object.value().clone();
    object.replace(patched)?;
    Ok(*object.value() != before)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::admissionregistration::v1::MutatingWebhook, apimachinery::pkg::apis::meta::v1::ObjectMeta,
    };
    use machinery_server::AdmissionAttributes;
    use serde_json::json;

    use super::*;
    use crate::testing::{TwoVersions, Write};

    #[test]
    fn a_patch_of_another_version_changes_the_object_of_the_request() {
        let webhook = json!({
            "name": "a.test", "clientConfig": {}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["v2"], "resources": ["*"]}],
        });
        let webhook: MutatingWebhook = serde_json::from_value(webhook).unwrap();
        let hook = Hook::of_mutating(&ObjectMeta::default(), &webhook);
        let write = Write::create(json!({"apiVersion": "kitchen.dev/v1", "spec": {"servings": 3}}));
        let attributes = AdmissionAttributes { converter: Some(&TwoVersions), ..write.attributes() };
        let subject = write.subject(&attributes);
        let version = hook.matched_version(&attributes).unwrap();
        let form = Forms::default().of(&subject, version).unwrap();
        assert_eq!(form.show(&subject).object.unwrap()["spec"], json!({"portions": 3}));
        let patch = json!([{"op": "replace", "path": "/spec/portions", "value": 5}]).to_string();
        let changed = patched(&hook, &form, &subject, patch.as_bytes()).unwrap().unwrap();
        assert_eq!(changed, json!({"apiVersion": "kitchen.dev/v1", "spec": {"servings": 5}}));
        assert_eq!(patched(&hook, &form, &subject, b"[]").unwrap(), None);
    }
}
