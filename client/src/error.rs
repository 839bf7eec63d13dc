//! Errors of requesters and responders.

use std::time::Duration;

use kube::core::{Status, response::StatusCause};

/// Words before and after the name of the webhook or policy by which admission denies a request.
///
/// They are those of k8s.io/apiserver, which our API server repeats: `ToStatusErr` in
/// `pkg/admission/plugin/webhook/errors/statuserror.go`, and `Dispatch` in
/// `pkg/admission/plugin/policy/validating/dispatcher.go`.
const DENIALS: [(&str, &str); 2] = [
    ("admission webhook \"", "\" denied the request"),
    // With or without "with binding 'NAME'".
    ("ValidatingAdmissionPolicy '", "' denied request: "),
];
/// End of the words before a policy's denial: `RESOURCE "NAME" is forbidden: `.
const FORBIDDEN: &str = " is forbidden: ";

/// Returns whether a webhook or policy of admission denied the request.
///
/// Only the words tell: a webhook chooses the code and the causes of its denial. No reply begins with words
/// that a caller has chosen.
pub fn is_admission_denial(status: &Status) -> bool {
    let message = status.message.as_str();
    let after_object = message.split_once(FORBIDDEN).map(|(_, reason)| reason);
    [Some(message), after_object].into_iter().flatten().any(|words| {
        DENIALS.iter().any(|(begin, end)| words.strip_prefix(begin).is_some_and(|rest| rest.contains(end)))
    })
}

/// Returns whether the API says that the object of that name does not exist.
///
/// Another 404 says nothing about it: while the API is not registered, the kube-apiserver finds its path and
/// not the object missing, and a proxy or a webhook may choose that code, too.
pub fn is_missing(status: &Status, name: &str) -> bool {
    let is_named = status.details.as_ref().is_some_and(|details| details.name == name);
    status.code == 404 && is_named && !is_admission_denial(status)
}

/// Failure of a request for an evacuation.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The API refused or could not be reached.
    #[error("{action} {namespace}/{name} failed")]
    Api {
        /// The action that failed, such as `creating an evacuation of pod`.
        action: &'static str,
        /// The object's namespace.
        namespace: String,
        /// The object's name.
        name: String,
        /// The reply of the API, or the failure of the connection.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API did not reply in time.
    #[error("{action} {namespace}/{name} had no reply within {} s: it may have been carried out", waited.as_secs())]
    NoReply {
        /// The action that failed, such as `creating an evacuation of pod`.
        action: &'static str,
        /// The object's namespace.
        namespace: String,
        /// The object's name.
        name: String,
        /// Timeout of the call.
        waited: Duration,
    },
    /// The requester's entry could not be written because others kept changing the object.
    #[error("evacuation {namespace}/{name} changed too often")]
    Contended {
        /// The Evacuation's namespace.
        namespace: String,
        /// The Evacuation's name.
        name: String,
    },
    /// The Evacuation was removed before its end was seen.
    #[error("evacuation {namespace}/{name} was removed before its end was seen")]
    Removed {
        /// The Evacuation's namespace.
        namespace: String,
        /// The Evacuation's name.
        name: String,
    },
}

impl RequestError {
    /// Returns whether a withdrawal came too late.
    ///
    /// Either an eviction is in flight (`EvictionInFlight`; if it fails, withdrawing works again), or the API
    /// accepted one and the pod is going (`EvictionAccepted`).
    pub fn is_too_late(&self) -> bool {
        ["EvictionInFlight", "EvictionAccepted"].into_iter().any(|reason| self.cause(reason).is_some())
    }

    /// Returns whether the pod is gone: no pod has its name, or another pod has taken it.
    pub fn is_pod_gone(&self) -> bool {
        self.cause("WrongPod").is_some()
            || self.cause("FieldValueNotFound").is_some_and(|cause| cause.field == "spec.target.pod.name")
    }

    /// Returns whether another writer was first: the write can be tried again on the newer object. Every
    /// other conflict has a cause.
    pub(crate) fn is_lost_turn(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409 && causes(status).is_empty())
    }

    /// Returns whether the Evacuation of the request has ended or is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.cause("EvacuationFinished").is_some() || self.is_missing()
    }

    /// Returns whether the API says that the Evacuation of the request does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        match self {
            Self::Api { name, source, .. } => {
                matches!(&**source, kube::Error::Api(status) if is_missing(status, name))
            }
            _ => false,
        }
    }

    /// The cause of that reason in the reply of the API.
    pub(crate) fn cause(&self, reason: &str) -> Option<&StatusCause> {
        causes(self.status()?).iter().find(|cause| cause.reason == reason)
    }

    /// The reply of the API itself: a denial by admission says nothing about the object.
    fn status(&self) -> Option<&Status> {
        let Self::Api { source, .. } = self else {
            return None;
        };
        match source.as_ref() {
            kube::Error::Api(status) if !is_admission_denial(status) => Some(status),
            _ => None,
        }
    }
}

/// The causes that a reply names.
pub(crate) fn causes(status: &Status) -> &[StatusCause] {
    status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default()
}

/// Failure to record an answer.
#[derive(Debug, thiserror::Error)]
pub enum RespondError {
    /// The server refused the answer: the responder is not the active one, it accepted before, or the caller
    /// may not answer for it. Another try will not help.
    #[error("the answer to evacuation {evacuation} was refused")]
    Refused {
        /// The Evacuation, as `NAMESPACE/NAME`.
        evacuation: String,
        /// The reply of the server.
        #[source]
        source: Box<kube::Error>,
    },
    /// The question ended before the answer was recorded.
    #[error("evacuation {evacuation} no longer waits for this answer")]
    Closed {
        /// The Evacuation, as `NAMESPACE/NAME`.
        evacuation: String,
    },
}

impl RespondError {
    /// Returns whether the server found a part of the answer invalid, such as its message.
    pub(crate) fn is_invalid(&self) -> bool {
        match self {
            Self::Refused { source, .. } => {
                matches!(source.as_ref(), kube::Error::Api(status) if status.code == 422)
            }
            Self::Closed { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failed(code: u16, message: &str, name: &str) -> RequestError {
        let details = serde_json::from_value(json!({"name": name})).unwrap();
        let status = Status::failure(message, "x").with_code(code).with_details(details);
        RequestError::Api {
            action: "joining evacuation",
            namespace: "shop".to_owned(),
            name: "a".to_owned(),
            source: Box::new(kube::Error::Api(status.boxed())),
        }
    }

    #[test]
    fn a_denial_by_admission_is_known_by_its_words() {
        for (message, expected) in [
            ("admission webhook \"a.b.c\" denied the request: not today", true),
            ("admission webhook \"a.b.c\" denied the request without explanation", true),
            ("admission webhook \"a.b.c\" denied the request: pods \"b\" is forbidden: no", true),
            (
                "evacuations.evacuation.dev \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with \
                 binding 'b' denied request: not today",
                true,
            ),
            (
                "evacuations.evacuation.dev \"Unknown\" is forbidden: ValidatingAdmissionPolicy 'p' \
                 denied request: failed to configure policy",
                true,
            ),
            ("evacuations.evacuation.dev \"a\" is forbidden: exceeded quota: q", false),
            ("evacuations.evacuation.dev \"a\" not found", false),
            ("Internal error occurred: failed calling webhook \"a.b.c\": timed out", false),
            ("admission webhook \"a.b.c\" is slow", false),
            ("message: Invalid value: \"admission webhook \\\"a\\\" denied the request\"", false),
            ("", false),
        ] {
            let status = Status::failure(message, "x");
            assert_eq!(is_admission_denial(&status), expected, "{message}");
        }
    }

    #[test]
    fn a_denial_says_nothing_about_the_object_whatever_its_code() {
        for (code, lost_turn, over) in [(404, false, true), (409, true, false)] {
            let own = failed(code, "x", "a");
            assert_eq!((own.is_lost_turn(), own.is_over()), (lost_turn, over), "{code}");
            let denied = failed(code, "admission webhook \"a.b.c\" denied the request: not today", "a");
            assert!(!denied.is_lost_turn() && !denied.is_over(), "{code}");
        }
    }

    #[test]
    fn only_a_404_that_names_the_evacuation_says_that_it_is_gone() {
        for (name, over) in [("a", true), ("", false), ("shop", false)] {
            assert_eq!(failed(404, "x", name).is_over(), over, "{name}");
        }
    }
}
