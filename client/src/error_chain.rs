//! An error and its causes in one text.

use std::error::Error;

/// Returns an error and its causes as `a: b: c`.
///
/// A cause that an outer error repeats is left out. Of a reply of the API only the message is kept.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let reply = reply_of_api(error);
        next = if reply.is_some() { None } else { error.source() };
        let part = reply.unwrap_or_else(|| without_causes(error));
        if part.is_empty() || text.contains(&part) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&part);
    }
    text
}

/// The error's own words. Errors of kube print their cause as well, behind a colon.
fn without_causes(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    let Some(cause) = error.source().map(ToString::to_string).filter(|cause| !cause.is_empty()) else {
        return text;
    };
    let own = text.strip_suffix(&cause).and_then(|own| own.strip_suffix(": "));
    own.map_or(text.clone(), str::to_owned)
}

fn reply_of_api(error: &(dyn Error + 'static)) -> Option<String> {
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
    use kube::{core::Status, runtime::watcher};

    use super::*;
    use crate::RequestError;

    fn api_error() -> kube::Error {
        let status = Status::failure("pods \"db-0\" not found", "NotFound").with_code(404);
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn only_the_message_of_a_reply_of_the_api_is_kept() {
        let request = RequestError::Api {
            action: "creating an evacuation of pod",
            namespace: "shop".to_owned(),
            name: "db-0".to_owned(),
            source: Box::new(api_error()),
        };
        let text = error_chain(&request);
        assert_eq!(text, "creating an evacuation of pod shop/db-0 failed: pods \"db-0\" not found");
        let listed = error_chain(&watcher::Error::InitialListFailed(api_error()));
        assert_eq!(listed, "failed to perform initial object list: pods \"db-0\" not found");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("no connection: {0}")]
    struct Repeating(#[source] std::io::Error);

    #[test]
    fn a_cause_that_an_error_prints_itself_is_kept_once() {
        let error = Repeating(std::io::Error::other("connection refused"));
        assert_eq!(error_chain(&error), "no connection: connection refused");
    }
}
