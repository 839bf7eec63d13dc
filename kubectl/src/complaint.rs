//! Errors as the commands print them.

use std::fmt::Display;

use evacuation_client::{RequestError, error_chain};

use crate::{grant::grant, output::is_unread};

/// Returns an error with its causes, and the ClusterRole that grants a missing right. Of a reply of the API
/// only the message is kept.
pub(crate) fn complaint(error: &anyhow::Error) -> String {
    let text = error_chain(error.as_ref());
    match grant(&text) {
        Some(grant) => format!("{text}; {grant}"),
        None => text,
    }
}

/// Returns true for the error of a request to which no server replied. The next request has none either.
pub(crate) fn is_outage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let reply = cause.downcast_ref::<kube::Error>();
        let reply = reply.or_else(|| cause.downcast_ref::<Box<kube::Error>>().map(Box::as_ref));
        // The client of the commands has this code for every failure to get a reply.
        matches!(reply, Some(kube::Error::Api(status)) if status.code == 503)
            || matches!(cause.downcast_ref(), Some(RequestError::NoReply { .. }))
    })
}

/// Returns the error that ends a command, with the objects that it did not come to: `; not asked: b, c`.
pub(crate) fn with_rest(
    error: anyhow::Error,
    deed: &str,
    rest: impl IntoIterator<Item = impl Display>,
) -> anyhow::Error {
    let rest: Vec<String> = rest.into_iter().map(|object| object.to_string()).collect();
    if rest.is_empty() || is_unread(&error) {
        return error;
    }
    anyhow::anyhow!("{}; not {deed}: {}", complaint(&error), rest.join(", "))
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
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

    #[test]
    fn an_outage_is_told_from_a_refusal() {
        let reply = |code| kube::Error::Api(Box::new(Status::failure("no", "x").with_code(code)));
        let of = |source| RequestError::Api {
            action: "creating an evacuation of pod",
            namespace: "shop".to_owned(),
            name: "db-0".to_owned(),
            source: Box::new(source),
        };
        let silent = RequestError::NoReply {
            action: "creating an evacuation of pod",
            namespace: "shop".to_owned(),
            name: "db-0".to_owned(),
            waited: std::time::Duration::from_secs(30),
        };
        for (error, expected) in [
            (of(reply(503)).into(), true),
            (anyhow::Error::from(reply(503)).context("nodeevacuation d cannot be read"), true),
            (anyhow::Error::from(silent).context("it was not taken back"), true),
            (of(reply(404)).into(), false),
            (anyhow::anyhow!("nobody asks the pod"), false),
        ] {
            assert_eq!(is_outage(&error), expected, "{error:?}");
        }
    }

    #[test]
    fn the_objects_that_a_command_did_not_come_to_are_named() {
        let error = || anyhow::Error::from(api_error()).context("node a cannot be read");
        let told = complaint(&with_rest(error(), "paused", ["b", "c"]));
        assert_eq!(told, "node a cannot be read: pods \"db-0\" not found; not paused: b, c");
        let told = complaint(&with_rest(error(), "paused", [""; 0]));
        assert_eq!(told, "node a cannot be read: pods \"db-0\" not found");
    }
}
