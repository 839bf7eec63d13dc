//! Validating webhooks: all at once.

use std::sync::Arc;

use futures::future::join_all;
use machinery_server::ApiError;

use super::{
    call::{Caller, HookKind},
    hook::Hook,
};
use crate::subject::Subject;

/// Calls the webhooks that apply to a write, all at once. Of several refusals, the first in their order
/// counts. All are waited for, so that a webhook sees every write that it is registered for.
pub(crate) async fn validate(
    caller: &Caller,
    hooks: &[Arc<Hook>],
    subject: &Subject<'_>,
) -> Result<(), ApiError> {
    let mut relevant = Vec::new();
    for hook in hooks {
        if caller.should_call(hook, subject).await? {
            relevant.push(hook);
        }
    }
    let calls = relevant.into_iter().map(|hook| caller.call(HookKind::Validating, hook, subject));
    for result in join_all(calls).await {
        result?;
    }
    Ok(())
}
