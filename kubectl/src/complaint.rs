//! What is printed when something went wrong.

/// An error with its causes, for people: of what the API said only the message.
pub(crate) fn complaint(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        if let Some(said) = said_by_the_api(cause) {
            parts.push(said);
            break;
        }
        let text = cause.to_string();
        // Some errors print their causes themselves.
        if parts.last().is_none_or(|last| !last.contains(&text)) {
            parts.push(text);
        }
    }
    parts.join(": ")
}

fn said_by_the_api(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let found = error.downcast_ref::<kube::Error>();
    let found = found.or_else(|| error.downcast_ref::<Box<kube::Error>>().map(Box::as_ref));
    match found? {
        kube::Error::Api(status) if status.message.is_empty() => Some(status.reason.clone()),
        kube::Error::Api(status) => Some(status.message.clone()),
        _ => None,
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
