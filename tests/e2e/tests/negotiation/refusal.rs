//! What the API says to what it does not do.

use kube::{Error, core::Status};

/// The status of a refusal; anything else fails the test.
pub(crate) fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> Status {
    match result {
        Err(Error::Api(status)) => *status,
        other => panic!("not refused: {other:?}"),
    }
}

/// The status of a refusal with that code and, among its causes, that reason.
pub(crate) fn refused_for<T: std::fmt::Debug>(result: kube::Result<T>, code: u16, cause: &str) -> Status {
    let status = refused(result);
    assert_eq!(status.code, code, "{status:?}");
    assert!(causes(&status).iter().any(|(reason, _)| reason == cause), "{status:?}");
    status
}

/// The status of a refusal with that code, whose message says this.
pub(crate) fn refused_saying<T: std::fmt::Debug>(result: kube::Result<T>, code: u16, said: &str) -> Status {
    let status = refused(result);
    assert_eq!(status.code, code, "{status:?}");
    assert!(status.message.contains(said), "{said:?} is not in {status:?}");
    status
}

/// Reason and message of each cause.
pub(crate) fn causes(status: &Status) -> Vec<(String, String)> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.map(|cause| (cause.reason.clone(), cause.message.clone())).collect()
}

/// The fields that are to blame.
pub(crate) fn fields(status: &Status) -> Vec<&str> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.map(|cause| cause.field.as_str()).collect()
}
