//! Refusals of the API.

use kube::{Error, core::Status};

/// The status of a refusal; any other result fails the test.
pub fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> Status {
    match result {
        Err(Error::Api(status)) => *status,
        other => panic!("not refused: {other:?}"),
    }
}

/// The status of a refusal with that code and, among its causes, that reason.
pub fn refused_for<T: std::fmt::Debug>(result: kube::Result<T>, code: u16, cause: &str) -> Status {
    let status = refused(result);
    assert_eq!(status.code, code, "{status:?}");
    assert!(causes(&status).iter().any(|(reason, _)| reason == cause), "{status:?}");
    status
}

/// The status of a refusal with that code, whose message contains this.
pub fn refused_saying<T: std::fmt::Debug>(result: kube::Result<T>, code: u16, said: &str) -> Status {
    let status = refused(result);
    assert_eq!(status.code, code, "{status:?}");
    assert!(status.message.contains(said), "{said:?} is not in {status:?}");
    status
}

/// Reason and message of each cause.
pub fn causes(status: &Status) -> Vec<(String, String)> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.map(|cause| (cause.reason.clone(), cause.message.clone())).collect()
}

/// The fields that the causes name.
pub fn fields(status: &Status) -> Vec<&str> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.map(|cause| cause.field.as_str()).collect()
}
