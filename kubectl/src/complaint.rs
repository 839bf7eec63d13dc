//! Errors as the commands print them.

use evacuation_client::error_chain;

use crate::grant::grant;

/// Returns an error with its causes, and the ClusterRole that grants a missing right. Of a reply of the API
/// only the message is kept.
pub(crate) fn complaint(error: &anyhow::Error) -> String {
    let text = error_chain(error.as_ref());
    match grant(&text) {
        Some(grant) => format!("{text}; {grant}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use evacuation_client::RequestError;
    use kube::core::Status;

    use super::*;

    fn api_error() -> kube::Error {
        let status = Status::failure("pods \"db-0\" not found", "NotFound").with_code(404);
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn of_what_the_api_said_only_the_message_is_printed() {
        let request = RequestError::Api {
            action: "creating an evacuation of pod",
            namespace: "shop".to_owned(),
            name: "db-0".to_owned(),
            source: Box::new(api_error()),
        };
        assert_eq!(
            complaint(&request.into()),
            "creating an evacuation of pod shop/db-0 failed: pods \"db-0\" not found"
        );
        let read: Result<(), _> = Err(api_error());
        let read = read.context("node a cannot be read").unwrap_err();
        assert_eq!(complaint(&read), "node a cannot be read: pods \"db-0\" not found");
    }

    #[test]
    fn what_an_error_says_of_its_cause_is_not_said_twice() {
        let error = anyhow::anyhow!("connection refused")
            .context("no connection: connection refused")
            .context("cannot list pods");
        assert_eq!(complaint(&error), "cannot list pods: no connection: connection refused");
    }
}
