//! Handlers that panic.

use std::{any::Any, panic::AssertUnwindSafe};

use futures::FutureExt;

/// Panic of a handler, with its message.
#[derive(Debug, thiserror::Error)]
#[error("the handler panicked: {0}")]
pub(crate) struct Panicked(String);

/// Returns the result of a call of a handler, or its panic.
///
/// The handler answers for its own state after a panic, such as a poisoned mutex. In a program that aborts on
/// a panic, the next process is asked.
pub(crate) async fn caught<T>(call: impl Future<Output = T>) -> Result<T, Panicked> {
    let caught = AssertUnwindSafe(call).catch_unwind().await;
    caught.map_err(|payload| Panicked(said(payload.as_ref())))
}

/// Message of a panic, which nearly always has one of these two types.
fn said(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_says_what_it_said() {
        let (reason, number) = ("out of luck", 7);
        let plain = caught(async { panic!("out of luck") }).await;
        let formatted = caught(async move { panic!("{reason} {number}") }).await;
        let said = |result: Result<(), Panicked>| result.unwrap_err().to_string();
        assert_eq!(said(plain), "the handler panicked: out of luck");
        assert_eq!(said(formatted), "the handler panicked: out of luck 7");
    }
}
