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
            let subject = Subject { attributes, object: value, old, namespaces };
            if !caller.should_call(hook, &subject).await? {
                continue;
            }
            let allowed = caller.call(HookKind::Mutating, hook, &subject).await?;
            let patch = allowed.map(|allowed| allowed.patch).unwrap_or_default();
            if change(hook, object.as_deref_mut(), &patch)? {
                again.extend(reinvocable.drain(..));
            }
            if hook.reinvoked {
                reinvocable.push(index);
            }
        }
    }
    Ok(())
}

/// Applies a patch. Returns true when the object is another one afterwards.
fn change(
    hook: &Hook,
    object: Option<&mut (dyn MutableObject + '_)>,
    patch: &[u8],
) -> Result<bool, ApiError> {
    let name = &hook.name;
    if patch.is_empty() {
        return Ok(false);
    }
    let failed = |why: &dyn std::fmt::Display| {
        refusal::internal(&format!("patch of admission webhook {name:?}: {why}"))
    };
    let Some(object) = object else {
        let empty = serde_json::from_slice::<Vec<Value>>(patch).is_ok_and(|patch| patch.is_empty());
        let why = format!(
            "admission webhook {name:?} attempted to modify the object, which is not supported for this operation"
        );
        return if empty { Ok(false) } else { Err(refusal::internal(&why)) };
    };
    let before = object.value().clone();
    let patched = json_patch(&before, patch).map_err(|error| failed(&error))?;
    if patched.value == before {
        return Ok(false);
    }
    object.replace(patched.value)?;
    Ok(*object.value() != before)
}
