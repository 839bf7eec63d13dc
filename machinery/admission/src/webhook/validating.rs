//! Validating webhooks: all at once.

use std::sync::Arc;

use futures::future::join_all;
use machinery_server::ApiError;

use super::{
    call::{Caller, HookKind},
    hook::Hook,
};
use crate::{form::Forms, subject::Subject};

/// Calls the webhooks that apply to a write, all at once. Of several refusals, the first in their order
/// counts. All are waited for, so that a webhook sees every write that it is registered for.
pub(crate) async fn validate(
    caller: &Caller,
    hooks: &[Arc<Hook>],
    subject: &Subject<'_>,
) -> Result<(), ApiError> {
    let (mut forms, mut relevant) = (Forms::default(), Vec::new());
    for hook in hooks {
        if let Some(form) = caller.should_call(hook, subject, &mut forms).await? {
            relevant.push((hook, form));
        }
    }
    let shown: Vec<_> = relevant.iter().map(|(hook, form)| (*hook, form.show(subject))).collect();
    let calls = shown.iter().map(|(hook, subject)| caller.call(HookKind::Validating, hook, subject));
    for result in join_all(calls).await {
        result?;
    }
    Ok(())
}
