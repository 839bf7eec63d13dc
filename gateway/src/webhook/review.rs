//! AdmissionReviews: from the kube-apiserver's question to a call, and from the answer to its reply.

use evacuation_api::Operation;
use k8s_openapi::{api::authentication::v1, apimachinery::pkg::apis::meta::v1::DeleteOptions};
use kube::{
    Resource,
    core::{
        DynamicObject, Status,
        admission::{AdmissionRequest, AdmissionResponse, AdmissionReview},
        response::{StatusCause, StatusDetails, StatusSummary},
    },
};
use machinery_auth::UserInfo;
use machinery_client::without_managed_fields;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{answer::Answer, call::Call, judge::Reply, pod::Shown, webhook::Reviewed};

/// Key of the audit annotation with the verdict. The kube-apiserver puts the webhook's name before it.
const AUDIT_KEY: &str = "verdict";

/// Reason for which a review cannot be answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    /// It is not an AdmissionReview of the expected kind.
    #[error("the body is not an AdmissionReview")]
    Decode(#[source] serde_json::Error),
    /// It has no request.
    #[error("the AdmissionReview has no request")]
    NoRequest,
    /// It lacks a field that the webhook depends on.
    #[error("the AdmissionReview has no {0}")]
    Missing(&'static str),
}

/// Reads the request of a review, but for the managed fields of its objects: a tenant chooses what a decoder
/// would have to take there.
pub(crate) fn read<K>(body: &[u8]) -> Result<AdmissionRequest<K>, ReviewError>
where
    K: Resource + DeserializeOwned,
{
    let review = serde_json::from_slice(&without_managed_fields(body));
    let review: AdmissionReview<K> = review.map_err(ReviewError::Decode)?;
    review.try_into().map_err(|_| ReviewError::NoRequest)
}

/// Returns the call of a creation of `pods/eviction`.
///
/// A dry run can be asked for in the request and in the body: `kubectl drain --dry-run=server` does the
/// latter, of which the kube-apiserver tells no webhook. The body may be of `policy/v1` or of
/// `policy/v1beta1`.
pub(crate) fn eviction(request: &AdmissionRequest<Reviewed>) -> Result<Call, ReviewError> {
    let body = request.object.as_ref().ok_or(ReviewError::Missing("object"))?;
    let options = body.delete_options.clone().unwrap_or_default();
    let named = Some(request.name.clone()).filter(|name| !name.is_empty());
    let pod = named.or_else(|| body.metadata.name.clone()).ok_or(ReviewError::Missing("name"))?;
    Ok(call(request, Operation::Evict, pod, &options))
}

/// Returns the call of a deletion, and the state of its pod. For a collection the request has no name.
///
/// Nothing else of the pod is taken from the body: the gateway judges by its own view of the pod.
pub(crate) fn deletion(request: &AdmissionRequest<Reviewed>) -> Result<(Call, Shown<'_>), ReviewError> {
    let old = request.old_object.as_ref().ok_or(ReviewError::Missing("oldObject"))?;
    let name = old.metadata.name.clone().ok_or(ReviewError::Missing("name"))?;
    let options = request.options.as_ref().map(|options| DeleteOptions::deserialize(&options.0));
    let options = options.transpose().map_err(ReviewError::Decode)?.unwrap_or_default();
    let shown = Shown {
        uid: old.metadata.uid.as_deref().unwrap_or_default(),
        resource_version: old.metadata.resource_version.as_deref().unwrap_or_default(),
    };
    Ok((call(request, Operation::Delete, name, &options), shown))
}

fn call<K: Resource>(
    request: &AdmissionRequest<K>,
    operation: Operation,
    pod: String,
    options: &DeleteOptions,
) -> Call {
    let wanted = options.preconditions.clone().unwrap_or_default();
    Call {
        operation,
        namespace: request.namespace.clone().unwrap_or_default(),
        pod,
        uid: wanted.uid,
        // The eviction API takes an empty one for none.
        resource_version: wanted.resource_version.filter(|version| !version.is_empty()),
        user: user(&request.user_info),
        grace_period_seconds: options.grace_period_seconds,
        propagates: options.propagation_policy.is_some(),
        dry_run: request.dry_run || options.dry_run.as_ref().is_some_and(|dry_run| !dry_run.is_empty()),
    }
}

fn user(info: &v1::UserInfo) -> UserInfo {
    UserInfo {
        name: info.username.clone().unwrap_or_default(),
        uid: info.uid.clone(),
        groups: info.groups.clone().unwrap_or_default(),
        extra: info.extra.clone().unwrap_or_default(),
    }
}

/// Returns the review with the answer.
pub(crate) fn reply<K: Resource>(
    request: &AdmissionRequest<K>,
    call: &Call,
    answer: Answer,
) -> AdmissionReview<DynamicObject> {
    let mut response = AdmissionResponse::from(request);
    let verdict = match answer {
        Answer::Pass(pass) => pass.as_str().to_owned(),
        Answer::Unasked(_) => "unasked".to_owned(),
        Answer::Wait(reply) => {
            response.allowed = false;
            let verdict = reply.cause.to_owned();
            response.result = status(call, reply);
            verdict
        }
    };
    response.audit_annotations.insert(AUDIT_KEY.to_owned(), verdict);
    response.into_review()
}

/// Returns the review that denies a call whose review is too long. `uid` is that of the request.
pub(crate) fn too_long(uid: String) -> AdmissionReview<DynamicObject> {
    let mut response = AdmissionResponse::invalid("the object of the call is too large for the gateway");
    response.uid = uid;
    response.result.status = Some(StatusSummary::Failure);
    response.result.code = 413;
    "RequestEntityTooLarge".clone_into(&mut response.result.reason);
    response.audit_annotations.insert(AUDIT_KEY.to_owned(), "too_long".to_owned());
    response.into_review()
}

/// Returns the object that a creation or an update writes. An update that changes no annotation writes
/// nothing of interest: most updates are such ones.
pub(crate) fn written(request: &AdmissionRequest<DynamicObject>) -> Result<Option<Value>, ReviewError> {
    let object = request.object.as_ref().ok_or(ReviewError::Missing("object"))?;
    let unchanged = request.old_object.as_ref().is_some_and(|old| {
        old.metadata.annotations == object.metadata.annotations
            && old.data.get("spec") == object.data.get("spec")
    });
    if unchanged {
        return Ok(None);
    }
    serde_json::to_value(object).map(Some).map_err(ReviewError::Decode)
}

/// Returns the review that allows a request with these warnings.
pub(crate) fn warned<K: Resource>(
    request: &AdmissionRequest<K>,
    warnings: Vec<String>,
) -> AdmissionReview<DynamicObject> {
    let mut response = AdmissionResponse::from(request);
    response.warnings = Some(warnings).filter(|warnings| !warnings.is_empty());
    response.into_review()
}

fn status(call: &Call, reply: Reply) -> Status {
    let cause = StatusCause {
        reason: reply.cause.to_owned(),
        message: reply.evacuation.unwrap_or_default(),
        field: String::new(),
    };
    Status {
        status: Some(StatusSummary::Failure),
        code: reply.code,
        message: reply.message,
        reason: reply.reason.to_owned(),
        details: Some(StatusDetails {
            name: call.pod.clone(),
            group: String::new(),
            kind: "pods".to_owned(),
            uid: String::new(),
            causes: vec![cause],
            // A client of Kubernetes would repeat a dry run until it is told the same ten times.
            retry_after_seconds: if call.dry_run { 0 } else { reply.retry_after_seconds },
        }),
        ..Status::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{judge::Pass, testing::call_of};
    use serde_json::json;

    fn review(more: &Value) -> Vec<u8> {
        let mut request = json!({
            "uid": "u1", "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "shop", "operation": "DELETE",
            "userInfo": {"username": "alice", "groups": ["dev"], "extra": {"k": ["v"]}},
        });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let review =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        serde_json::to_vec(&review).unwrap()
    }

    #[test]
    fn a_deletion_is_read_from_the_old_object_also_where_the_request_names_none() {
        // No decoder here takes that time, which whoever may change the pod can write.
        let managed = json!([{"manager": "m", "operation": "Update", "time": "9999-12-31T23:59:59Z"}]);
        let metadata = json!({
            "name": "db-0", "namespace": "shop", "uid": "p", "resourceVersion": "7", "managedFields": managed,
        });
        let old = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
        let options = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 5,
            "propagationPolicy": "Background", "preconditions": {"uid": "p"},
        });
        let body = review(&json!({"oldObject": old, "object": null, "options": options, "dryRun": true}));
        let request = read::<Reviewed>(&body).unwrap();
        let (call, shown) = deletion(&request).unwrap();
        assert_eq!((call.pod.as_str(), call.namespace.as_str()), ("db-0", "shop"));
        assert_eq!((call.grace_period_seconds, call.uid.as_deref()), (Some(5), Some("p")));
        assert!(call.propagates && call.dry_run);
        assert_eq!(call.user.groups, ["dev"]);
        assert_eq!(call.user.extra_value("k"), Some("v"));
        assert_eq!(shown, Shown { uid: "p", resource_version: "7" });
    }

    #[test]
    fn a_dry_run_of_an_eviction_is_also_found_in_the_body() {
        for (request, body, expected) in [
            (json!({}), json!({}), false),
            (json!({"dryRun": true}), json!({}), true),
            (json!({}), json!({"dryRun": ["All"]}), true),
        ] {
            let object = json!({
                "apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "db-0"}, "deleteOptions": body,
            });
            let mut more =
                json!({"name": "db-0", "operation": "CREATE", "subResource": "eviction", "object": object});
            more.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
            let call = eviction(&read::<Reviewed>(&review(&more)).unwrap()).unwrap();
            assert_eq!(call.dry_run, expected, "{body}");
            assert!(!call.propagates);
        }
    }

    #[test]
    fn the_preconditions_of_an_eviction_are_read_and_an_empty_version_is_none() {
        for (version, expected) in [(json!("7"), Some("7")), (json!(""), None), (Value::Null, None)] {
            let options = json!({"preconditions": {"uid": "p", "resourceVersion": version}});
            let object = json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "db-0"}, "deleteOptions": options,
            });
            let more =
                json!({"name": "db-0", "operation": "CREATE", "subResource": "eviction", "object": object});
            let call = eviction(&read::<Reviewed>(&review(&more)).unwrap()).unwrap();
            assert_eq!((call.uid.as_deref(), call.resource_version.as_deref()), (Some("p"), expected));
        }
    }

    #[test]
    fn a_caller_that_waits_gets_a_429_with_its_cause_and_one_that_passes_gets_none() {
        let body = review(
            &json!({"name": "db-0", "oldObject": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0"}}}),
        );
        let request = read::<Reviewed>(&body).unwrap();
        let call = call_of("alice", Operation::Delete);
        let waits = reply(&request, &call, Answer::Wait(Reply::busy(&call, 1)));
        let sent = serde_json::to_value(&waits).unwrap();
        assert_eq!(sent["response"]["uid"], "u1");
        assert_eq!(sent["response"]["allowed"], false);
        assert_eq!(sent["response"]["status"]["code"], 429);
        assert_eq!(sent["response"]["status"]["details"]["retryAfterSeconds"], 1);
        assert_eq!(sent["response"]["status"]["details"]["causes"][0]["reason"], "TooManyCalls");
        let dry_run = Call { dry_run: true, ..call.clone() };
        let waits = reply(&request, &dry_run, Answer::Wait(Reply::busy(&dry_run, 1)));
        let sent = serde_json::to_value(&waits).unwrap();
        assert_eq!(
            sent["response"]["status"]["details"]["retryAfterSeconds"],
            Value::Null,
            "nothing changes"
        );
        let passes = reply(&request, &call, Answer::Pass(Pass::Unregistered));
        let sent = serde_json::to_value(&passes).unwrap();
        assert_eq!(sent["response"]["allowed"], true);
        assert_eq!(sent["response"]["auditAnnotations"]["verdict"], "unregistered");
    }

    /// # Attack
    ///
    /// - Attacker: a user who may evict pods
    /// - Act: sends an Eviction with fields that no decoder takes, or with fields of other types
    /// - Promise: 11
    #[test]
    fn what_a_caller_chooses_of_an_object_cannot_make_its_review_unreadable() {
        let late = "9999-12-31T23:59:59Z";
        for metadata in [
            json!({"name": "db-0", "creationTimestamp": late, "deletionTimestamp": late}),
            json!({"name": "db-0", "managedFields": [{"time": late}], "labels": {"a": null}, "generation": 1e300}),
            json!({"name": "db-0", "ownerReferences": 1, "annotations": [], "finalizers": {}}),
        ] {
            let object = json!({"kind": "Eviction", "metadata": metadata, "more": [[[{}]]]});
            let evicts = review(&json!({"name": "db-0", "subResource": "eviction", "object": object}));
            assert_eq!(eviction(&read(&evicts).unwrap()).unwrap().pod, "db-0", "{metadata}");
            let deletes = review(&json!({"oldObject": {"metadata": metadata, "spec": 1, "status": "x"}}));
            assert_eq!(deletion(&read(&deletes).unwrap()).unwrap().0.pod, "db-0", "{metadata}");
        }
    }

    #[test]
    fn a_review_that_is_too_long_is_denied() {
        let denied = serde_json::to_value(too_long("u1".to_owned())).unwrap();
        let response = &denied["response"];
        assert_eq!((&response["uid"], &response["allowed"]), (&json!("u1"), &json!(false)));
        assert_eq!(response["status"]["code"], 413);
        assert_eq!(denied["kind"], "AdmissionReview");
    }

    #[test]
    fn a_body_that_is_no_review_is_an_error() {
        assert!(matches!(read::<Reviewed>(b"{"), Err(ReviewError::Decode(_))));
        let empty = br#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#;
        assert!(matches!(read::<Reviewed>(empty), Err(ReviewError::NoRequest)));
        let request = read::<Reviewed>(&review(&json!({}))).unwrap();
        assert!(matches!(deletion(&request), Err(ReviewError::Missing("oldObject"))));
    }
}
