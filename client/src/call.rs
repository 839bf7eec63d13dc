//! One call to the API, with a timeout and a named error.

use std::time::Duration;

use crate::RequestError;

/// Timeout of one call. A connection that died silently would hold the call for ever.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for a call that does `action` to the object of that namespace and name.
pub(crate) async fn call<T>(
    action: &'static str,
    namespace: &str,
    name: &str,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, RequestError> {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(source)) => Err(RequestError::Api { action, namespace, name, source: Box::new(source) }),
        Err(_) => Err(RequestError::NoReply { action, namespace, name, waited: CALL_TIMEOUT }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_without_a_reply_ends_and_says_so() {
        let silent = std::future::pending::<kube::Result<()>>();
        let error = call("reading evacuation", "shop", "a", silent).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "reading evacuation shop/a had no reply within 30 s: it may have been carried out"
        );
    }
}
