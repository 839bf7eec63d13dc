//! Handlers that panic.

use std::{any::Any, panic::AssertUnwindSafe};

use futures::FutureExt;

/// A handler panicked, and what it said.
#[derive(Debug, thiserror::Error)]
#[error("the handler panicked: {0}")]
pub(crate) struct Panicked(String);

/// What the call of a handler returns, or that it panicked.
///
/// A handler takes its own state through `&self`, and what a panic leaves of that (such as a poisoned mutex) is its own to
/// judge when it is called again. Where the program is built to abort on a panic, its next process is asked.
pub(crate) async fn caught<T>(call: impl Future<Output = T>) -> Result<T, Panicked> {
    let caught = AssertUnwindSafe(call).catch_unwind().await;
    caught.map_err(|payload| Panicked(said(payload.as_ref())))
}

/// The text of a panic, which is all but always one of these two types.
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
