//! The callers of a world, and the reviews in which the kube-apiserver tells the gateway of their calls.

use evacuation_api::Operation;
use k8s_openapi::api::core::v1::Pod;
use kube::core::admission::AdmissionRequest;
use machinery_auth::UserInfo;
use serde_json::{Value, json};

use super::super::{check_reply, played::GATEWAY};
use crate::{
    answer::{Answer, Unasked},
    call::Call,
    judge::{Reply, Verdict},
    webhook::{Reviewed, review},
};

/// A caller, and the options of its calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) user: &'static str,
    group: &'static str,
    pub(super) operation: Operation,
    grace_period_seconds: Option<i64>,
    propagates: bool,
    /// True for the machinery of Kubernetes and of this project, whose calls always pass.
    pub(super) is_exempt: bool,
}

const fn caller(user: &'static str, operation: Operation) -> Caller {
    let group = "system:authenticated";
    Caller { user, group, operation, grace_period_seconds: None, propagates: false, is_exempt: false }
}

/// The callers; those that always pass are the last.
const CALLERS: [Caller; 13] = [
    caller("alice", Operation::Evict),
    caller("bob", Operation::Evict),
    caller("alice", Operation::Delete),
    caller("system:serviceaccount:kube-system:replicaset-controller", Operation::Delete),
    caller("system:serviceaccount:kube-system:node-controller", Operation::Delete),
    caller("system:kube-scheduler", Operation::Delete),
    // All controllers share this user: here it is that of the ReplicaSet, which owns the pod.
    caller("system:kube-controller-manager", Operation::Delete),
    // An account of a tenant that has the name of a collector.
    caller("system:serviceaccount:shop:generic-garbage-collector", Operation::Delete),
    Caller { grace_period_seconds: Some(0), ..caller("bob", Operation::Delete) },
    Caller {
        is_exempt: true,
        ..caller("system:serviceaccount:kube-system:generic-garbage-collector", Operation::Delete)
    },
    Caller {
        is_exempt: true,
        propagates: true,
        ..caller("system:kube-controller-manager", Operation::Delete)
    },
    Caller { is_exempt: true, group: "system:nodes", ..caller("system:node:node-0", Operation::Delete) },
    Caller { is_exempt: true, ..caller(GATEWAY, Operation::Evict) },
];

/// Number of callers.
pub const CALLER_COUNT: usize = CALLERS.len();
/// Number of callers that do not always pass.
pub(in crate::fuzzing) const ASKING_COUNT: usize = 9;

/// A review that the webhook has read, and its call.
pub(super) struct Review {
    pub(super) caller: Caller,
    pub(super) call: Call,
    request: AdmissionRequest<Reviewed>,
}

impl Review {
    /// Writes a call for the pod as the kube-apiserver does, and reads it as the webhook does. Each `form`
    /// means the same. `uid` is the caller's precondition.
    pub(super) fn of(caller: usize, pod: &Pod, uid: Option<String>, form: usize) -> Option<Self> {
        let caller = CALLERS.get(caller).copied()?;
        let body = caller.review(pod, uid.as_deref(), form).to_string();
        let request = review::read::<Reviewed>(body.as_bytes());
        let request = request.unwrap_or_else(|error| panic!("{error}: {body}"));
        let call = match caller.operation {
            Operation::Evict => review::eviction(&request),
            Operation::Delete => review::deletion(&request).map(|(call, shown)| {
                assert!(shown.is(pod), "{shown:?} is not the state of {pod:?}");
                call
            }),
        };
        let call = call.unwrap_or_else(|error| panic!("{error}: {body}"));
        assert_eq!(call, caller.call(uid), "read from {body}");
        Some(Self { caller, call, request })
    }

    /// Writes the reply, which allows the call exactly when the verdict lets it pass.
    pub(super) fn check_reply(&self, verdict: &Verdict) {
        let (answer, passes) = match verdict {
            Verdict::Pass(pass) => (Answer::Pass(*pass), true),
            Verdict::Open(way) => (Answer::Unasked(Unasked::Outage(*way)), true),
            Verdict::Wait(reply) => (Answer::Wait(reply.clone()), false),
            Verdict::Ask { .. } | Verdict::Count { .. } | Verdict::Look => {
                (Answer::Wait(Reply::busy(&self.call, 1)), false)
            }
        };
        check_reply(&review::reply(&self.request, &self.call, answer), &self.request.uid, passes);
    }
}

impl Caller {
    /// Returns the call that the webhook has to read.
    fn call(self, uid: Option<String>) -> Call {
        Call {
            operation: self.operation,
            namespace: "shop".to_owned(),
            pod: "db-0".to_owned(),
            uid,
            resource_version: None,
            user: UserInfo {
                name: self.user.to_owned(),
                groups: vec![self.group.to_owned()],
                ..UserInfo::default()
            },
            grace_period_seconds: self.grace_period_seconds,
            propagates: self.propagates,
            dry_run: false,
        }
    }

    fn review(self, pod: &Pod, uid: Option<&str>, form: usize) -> Value {
        let mut options = json!({"preconditions": uid.map(|uid| json!({"uid": uid}))});
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = json!(seconds);
        }
        if self.propagates {
            options["propagationPolicy"] = json!("Background");
        }
        let mut request = json!({
            "uid": "review-1", "namespace": "shop", "dryRun": false,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "userInfo": {"username": self.user, "groups": [self.group]},
        });
        // A collection names no pod in the request.
        if form & 1 == 0 {
            request["name"] = json!("db-0");
        }
        match self.operation {
            Operation::Evict => {
                let version = if form & 2 == 0 { "policy/v1" } else { "policy/v1beta1" };
                request["operation"] = json!("CREATE");
                request["subResource"] = json!("eviction");
                request["object"] = json!({
                    "apiVersion": version, "kind": "Eviction",
                    "metadata": {"name": "db-0", "namespace": "shop"}, "deleteOptions": options,
                });
            }
            Operation::Delete => {
                request["operation"] = json!("DELETE");
                request["oldObject"] = shown(pod, form);
                request["options"] = options;
            }
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    }
}

/// Returns the pod as a review shows it. Its identity is true. The gateway must take nothing else from it.
fn shown(pod: &Pod, form: usize) -> Value {
    let mut shown = serde_json::to_value(pod).unwrap_or_default();
    if form & 2 != 0 {
        // A pod that would pass: it ended, terminates, or mirrors a static one.
        shown["status"] = json!({"phase": "Succeeded"});
        shown["metadata"]["deletionTimestamp"] = json!("2024-10-04T00:00:00Z");
        shown["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "m"});
    }
    if form & 4 != 0 {
        let time = "9999-12-31T23:59:59Z";
        shown["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update", "time": time}]);
    }
    shown
}
