//! Calls for a pod of a PodGroup whose pods move together.

use super::*;

/// Returns the running pod of that name in the group, with responders.
fn member(name: &str) -> Value {
    let mut member = pod("1", true);
    member["metadata"]["name"] = json!(name);
    member["metadata"]["uid"] = json!(name);
    member["spec"]["schedulingGroup"] = json!({"podGroupName": "gang"});
    member
}

/// Returns the Evacuation of pod `db-1`, whose app gave that answer.
fn asked(answer: &str) -> Value {
    let at = |seconds| Utc::now() + TimeDelta::seconds(seconds);
    let responder = json!({
        "name": "self", "priority": 1, "timeoutSeconds": 600, "maxDelaySeconds": 600, "state": "Active",
        "activeTime": at(-100), "answer": answer, "answerTime": at(-1), "delayUntil": at(500),
    });
    json!({
        "metadata": {"name": "db-1-x", "namespace": "shop", "uid": "e", "resourceVersion": "3"},
        "spec": {"target": {"pod": {"name": "db-1", "uid": "db-1"}}, "requesters": []},
        "status": {"responders": [responder]},
    })
}

/// A pause of seconds is no outage. The call would pass as for an app that nobody could ask.
#[tokio::test(start_paused = true)]
async fn a_member_that_cannot_be_asked_for_a_moment_waits_for_the_answer_of_another() {
    for (answer, hangs) in [("Delay", false), ("Refuse", false), ("Delay", true), ("Accept", false)] {
        let group = "/apis/scheduling.k8s.io/v1beta1/namespaces/shop/podgroups/gang";
        let together = json!({
            "metadata": {"name": "gang", "namespace": "shop"},
            "spec": {"disruptionMode": {"all": {}}, "schedulingPolicy": {"basic": {}}},
        });
        let api = PlayedApi {
            listed: member("db-0"),
            live: member("db-0"),
            beside: vec![member("db-1")],
            evacuations: vec![asked(answer)],
            rejects: AtomicUsize::new(503),
            hangs,
            others: HashMap::from([(group, together)]),
            ..PlayedApi::default()
        };
        let (gateway, _) = gateway(api).await;
        match gateway.answer(&evict(), None).await {
            Answer::Wait(reply) => {
                assert!(reply.message.starts_with("shop/db-0: pod db-1 of the same PodGroup: "), "{reply:?}");
                assert_ne!(answer, "Accept", "{reply:?}");
            }
            passed => assert!(answer == "Accept" && matches!(passed, Answer::Unasked(_)), "{passed:?}"),
        }
    }
}
