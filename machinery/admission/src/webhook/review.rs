//! AdmissionReviews: questions and answers. Source of the rules:
//! `k8s.io/apiserver/pkg/admission/plugin/webhook/request`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use machinery_merge::{DecodeError, Strictness, decode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hook::ReviewVersion;
use crate::{request::AdmissionRequest, subject::Subject};

/// Answer of a webhook.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Answer {
    uid: String,
    pub(crate) allowed: bool,
    #[serde(rename = "status")]
    pub(crate) status: Option<Status>,
    patch: Option<String>,
    patch_type: Option<String>,
    pub(crate) audit_annotations: BTreeMap<String, String>,
    pub(crate) warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    response: Option<Answer>,
}

/// An answer that breaks the protocol.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("the answer is no AdmissionReview: {0}")]
    Unreadable(DecodeError),
    #[error("webhook response was absent")]
    Absent,
    #[error("expected response.uid={expected:?}, got {found:?}")]
    Uid { expected: String, found: String },
    #[error("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {0}, Kind={1}")]
    Kind(String, String),
    #[error("webhook returned response.patch but not response.patchType")]
    NoPatchType,
    #[error("webhook returned response.patchType but not response.patch")]
    NoPatch,
    #[error("unsupported patch type {0:?}")]
    PatchType(String),
    #[error("validating webhook may not return response.patch")]
    Patched,
    #[error("response.patch is not base64")]
    Base64,
}

/// AdmissionReview with a question.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    api_version: &'static str,
    kind: &'static str,
    request: Asked<'a>,
}

/// AdmissionRequest of a webhook.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    uid: &'a str,
    #[serde(flatten)]
    request: AdmissionRequest<'a>,
    object: Option<&'a Value>,
    old_object: Option<&'a Value>,
}

/// Returns the question for a webhook.
///
/// # Errors
///
/// The JSON cannot be written.
pub(crate) fn question(
    subject: &Subject<'_>,
    version: ReviewVersion,
    uid: &str,
) -> Result<Vec<u8>, serde_json::Error> {
    let request = Asked {
        uid,
        request: AdmissionRequest::new(subject),
        object: subject.object,
        old_object: subject.old,
    };
    serde_json::to_vec(&Question { api_version: version.api_version(), kind: "AdmissionReview", request })
}

impl Answer {
    /// Reads the answer to the question with that UID.
    pub(crate) fn read(body: &[u8], version: ReviewVersion, uid: &str) -> Result<Self, AnswerError> {
        // Fields that are null count as absent, as for Go's decoder.
        let review = decode::<Review>(body, Strictness::Ignore).map_err(AnswerError::Unreadable)?.value;
        let answer = review.response.ok_or(AnswerError::Absent)?;
        // As upstream, v1beta1 has no checks.
        if version == ReviewVersion::V1 {
            if answer.uid != uid {
                return Err(AnswerError::Uid { expected: uid.to_owned(), found: answer.uid });
            }
            if review.api_version != version.api_version() || review.kind != "AdmissionReview" {
                return Err(AnswerError::Kind(review.api_version, review.kind));
            }
        }
        Ok(answer)
    }

    /// Returns the JSON patch of a mutating webhook; empty for none.
    pub(crate) fn patch(&self, version: ReviewVersion) -> Result<Vec<u8>, AnswerError> {
        let patch = self.patch.as_deref().unwrap_or_default();
        match (patch.is_empty(), self.patch_type.as_deref()) {
            (true, Some(_)) if version == ReviewVersion::V1 => return Err(AnswerError::NoPatch),
            (true, _) => return Ok(Vec::new()),
            (false, None) if version == ReviewVersion::V1 => return Err(AnswerError::NoPatchType),
            (false, None | Some("JSONPatch")) => {}
            (false, Some(other)) => return Err(AnswerError::PatchType(other.to_owned())),
        }
        // The Go type is bytes, which are base64 in JSON.
        serde_json::from_value::<k8s_openapi::ByteString>(patch.into())
            .map(|patch| patch.0)
            .map_err(|_| AnswerError::Base64)
    }

    /// Fails when a validating webhook sent a patch.
    pub(crate) fn check_unpatched(&self, version: ReviewVersion) -> Result<(), AnswerError> {
        let patched =
            self.patch.as_deref().is_some_and(|patch| !patch.is_empty()) || self.patch_type.is_some();
        if patched && version == ReviewVersion::V1 { Err(AnswerError::Patched) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(answer: &Value) -> Result<Answer, String> {
        Answer::read(answer.to_string().as_bytes(), ReviewVersion::V1, "u").map_err(|error| error.to_string())
    }

    fn answered(response: &Value) -> Value {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    #[test]
    fn an_answer_to_another_question_or_of_another_kind_is_refused() {
        assert!(read(&answered(&json!({"uid": "u", "allowed": true}))).unwrap().allowed);
        assert!(read(&answered(&json!({"uid": "v"}))).unwrap_err().contains("expected response.uid"));
        assert!(read(&json!({"response": {"uid": "u"}})).unwrap_err().contains("expected webhook response"));
        assert_eq!(read(&json!({})).unwrap_err(), "webhook response was absent");
    }

    #[test]
    fn fields_that_are_null_count_as_absent_and_a_list_is_no_review() {
        let nulls = json!({"uid": "u", "allowed": true, "warnings": null, "auditAnnotations": null,
                           "status": null, "patch": null});
        assert!(read(&answered(&nulls)).unwrap().allowed);
        let list = json!(["admission.k8s.io/v1", "AdmissionReview", {"uid": "u", "allowed": true}]);
        assert!(read(&list).unwrap_err().contains("no AdmissionReview"));
    }

    #[test]
    fn a_patch_comes_with_its_type() {
        let patch = |response: Value| {
            let mut response = response;
            response["uid"] = json!("u");
            let answer = read(&answered(&response)).unwrap();
            answer.patch(ReviewVersion::V1).map_err(|error| error.to_string())
        };
        assert_eq!(patch(json!({})).unwrap(), b"");
        assert_eq!(patch(json!({"patch": "W10=", "patchType": "JSONPatch"})).unwrap(), b"[]");
        assert!(patch(json!({"patch": "W10="})).unwrap_err().contains("but not response.patchType"));
        assert!(patch(json!({"patchType": "JSONPatch"})).unwrap_err().contains("but not response.patch"));
        assert!(patch(json!({"patch": "W10=", "patchType": "X"})).unwrap_err().contains("unsupported"));
        assert!(patch(json!({"patch": "*", "patchType": "JSONPatch"})).unwrap_err().contains("base64"));
    }
}
