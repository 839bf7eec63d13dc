//! `kubectl evacuate answer`: a person answers in place of a responder.

use evacuation_api::Answer;
use evacuation_e2e::{
    PodSpec,
    scene::{first, responder_named},
};
use kube::ResourceExt;
use serde_json::json;

use crate::desk::{Desk, assert_has};

/// The name of the responder that a person plays.
const FAILOVER: &str = "db.acme.io/failover";

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_for_the_pod_itself_is_recorded_and_an_accept_lets_the_pod_go() {
    let desk = Desk::new("answerself").await;
    let asked = desk.asked("db-0").await;
    let name = asked.name_any();
    let said =
        desk.kubectl(&["evacuate", "answer", "pod/db-0", "delay", "--for=90s", "--message=3 jobs"]).await;
    assert_has(&said, &[&format!("evacuation.evacuation.dev/{name}: self answered Delay until ")]);
    let delayed = desk.until_state(&asked, "Delayed").await;
    assert_eq!(first(&delayed).message.as_deref(), Some("3 jobs"));

    let said = desk.kubectl(&["evacuate", "answer", &name, "refuse", "--retry-after=1h"]).await;
    assert_has(&said, &["self answered Refuse"]);
    let refused = desk.answered(&asked, Answer::Refuse).await;
    assert!(refused.retry_time.is_some(), "{refused:?}");

    let pod = desk.pods.api().get("db-0").await.unwrap();
    desk.kubectl(&["evacuate", "answer", &name, "accept"]).await;
    desk.pods.gone(&pod).await.unwrap();
    let error = desk.fails(1, &["evacuate", "answer", &name, "accept"]).await;
    assert_has(&error, &["has no active responder"]);
    let error = desk.fails(1, &["evacuate", "answer", "pod/nobody", "accept"]).await;
    assert_has(&error, &["nobody asks pod", "nobody to move", "kubectl create evacuation"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_for_another_responder_takes_its_turn_and_the_verb_respond() {
    let desk = Desk::new("answerother").await;
    let both = json!([{"name": FAILOVER, "priority": 20000}, {"name": "self"}]);
    desk.pods.create("db-0", &PodSpec::registered(&both).on("node-1")).await.unwrap();
    let asked = desk.evacuation("db-0").await;
    let name = asked.name_any();

    let error = desk.fails(1, &["evacuate", "answer", &name, "accept", "--as-responder=self"]).await;
    assert_has(&error, &["responder self of evacuation", "is not active but Inactive", FAILOVER]);
    let error = desk.fails(1, &["evacuate", "answer", &name, "accept", "--as-responder=acme.io/x"]).await;
    assert_has(&error, &["has no responder acme.io/x", FAILOVER]);

    let user = desk.user("alice", &["evacuation:requester"]).await.name;
    let resource =
        json!({"apiGroups": ["evacuation.dev"], "resources": ["evacuations/respond"], "verbs": ["create"]});
    desk.grant(&user, resource).await;
    let as_user = format!("--as={user}");
    let error = desk.fails(1, &["evacuate", "answer", &name, "accept", &as_user]).await;
    assert_has(&error, &["was not recorded", "cannot respond as", FAILOVER, "the verb respond"]);

    let said = desk.kubectl(&["evacuate", "answer", &name, "accept"]).await;
    assert_has(&said, &[&format!("{FAILOVER} answered Accept")]);
    let accepted = desk.get(&name).await;
    assert_eq!(responder_named(&accepted, FAILOVER).answer, Some(Answer::Accept));
}
