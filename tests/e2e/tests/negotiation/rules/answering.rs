//! Rule 4: an answer counts only from the active responder, and from nobody else in its name.

use evacuation_api::{Answer, Evacuation, ResponderState};
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{answer, fields, first, leave, refused, refused_for, refused_saying, respond},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt, api::ListParams};
use serde_json::{Value, json};

/// The named responder of the tests.
const FAILOVER: &str = "db.acme.io/failover";

fn accept() -> Value {
    json!({"answer": "Accept"})
}

/// Nobody has answered and nothing has changed.
async fn unanswered(scene: &Scene, evacuation: &Evacuation) {
    let now = scene.get(evacuation).await;
    assert_eq!((first(&now).state, first(&now).answer), (ResponderState::Active, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_only_the_target_pod_itself_answers_as_self() {
    let scene = Scene::new("self").await;
    scene.account("other").await;
    let mut of_other = PodSpec::watching();
    of_other.service_account = Some("other".to_owned());
    let (target, sibling, stranger) = tokio::join!(
        scene.pod("target", PodSpec::watching()),
        scene.pod("sibling", PodSpec::watching()),
        scene.pod("stranger", of_other),
    );
    let evacuation = scene.ask_and_reach(&target, json!({})).await;
    let callers: [(&str, Client, &str); 4] = [
        ("a pod of the same account", scene.client_of(&sibling).await, "only the target may"),
        ("a pod of another account", scene.client_of(&stranger).await, "only the target may"),
        ("a token without a pod", scene.unbound(scene.namespace(), "default").await, "is not a pod"),
        ("a user with all rights", scene.admin(), "is not a pod"),
    ];
    for (who, client, said) in callers {
        let status = refused_saying(answer(&client, &evacuation, accept()).await, 403, said);
        assert!(status.message.contains("selfevacuations"), "{who}: {status:?}");
    }
    // Nor by the other door, which takes a right on Evacuations.
    refused_saying(respond(&scene.admin(), &evacuation, accept()).await, 403, "\"self\"");
    unanswered(&scene, &evacuation).await;

    answer(&scene.client_of(&target).await, &evacuation, accept()).await.unwrap();
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(first(&ended).answer, Some(Answer::Accept));
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_a_pod_sees_and_answers_nothing_but_its_own_evacuations() {
    let scene = Scene::new("own").await;
    let elsewhere = Scene::new("elsewhere").await;
    let (target, sibling, far) = tokio::join!(
        scene.pod("target", PodSpec::watching()),
        scene.pod("sibling", PodSpec::watching()),
        elsewhere.pod("target", PodSpec::watching()),
    );
    let evacuation = scene.ask_and_reach(&target, json!({})).await;
    let seen = async |pod: &Pod| {
        let client = scene.client_of(pod).await;
        let api: kube::Api<evacuation_api::SelfEvacuation> = kube::Api::default_namespaced(client);
        let all = api.list(&ListParams::default()).await.unwrap().items;
        all.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    assert_eq!(seen(&target).await, [evacuation.name_any()]);
    assert_eq!(seen(&sibling).await, Vec::<String>::new());
    let far = elsewhere.client_of(&far).await;
    let status = refused(answer(&far, &evacuation, accept()).await);
    assert_eq!(status.code, 403, "{status:?}");
    let named = json!({"answer": "Accept", "responder": FAILOVER});
    refused_saying(
        answer(&scene.client_of(&target).await, &evacuation, named).await,
        403,
        "as \"self\" here",
    );
    unanswered(&scene, &evacuation).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_the_token_of_a_replaced_pod_of_the_same_name_proves_nothing() {
    let scene = Scene::new("reused").await;
    let old = scene.pod("db-0", PodSpec::watching()).await;
    let evacuation = scene.ask_and_reach(&old, json!({})).await;
    scene.delete_pod("db-0").await;
    scene.pods.gone(&old).await.unwrap();
    let new = scene.pod("db-0", PodSpec::watching()).await;
    let app = scene.client_of(&new).await;
    refused_saying(
        answer(&app, &evacuation, accept()).await,
        403,
        "as it was when the evacuation was created",
    );
    let ended = scene.ends(&evacuation, "Evacuated GoneByOther").await;
    assert_eq!(first(&ended).answer, None);
    assert!(scene.stays(&new).await, "the new pod was never meant");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_a_named_responder_needs_the_verb_respond_on_its_name_or_domain() {
    let scene = Scene::new("named").await;
    let spec = || PodSpec::registered(&json!([{"name": FAILOVER}]));
    let (one, two) = tokio::join!(scene.pod("one", spec()), scene.pod("two", spec()));
    let (one, two) = tokio::join!(scene.ask_and_reach(&one, json!({})), scene.ask_and_reach(&two, json!({})));
    let named = || json!({"answer": "Accept", "responder": FAILOVER});
    let right = |name: &str| json!({"apiGroups": ["evacuation.dev"], "resources": ["responders"], "verbs": ["respond"], "resourceNames": [name]});
    let posting = || json!({"apiGroups": ["evacuation.dev"], "resources": ["evacuations/respond"], "verbs": ["create"]});

    let nobody = scene.user("nobody", &[]).await;
    scene.grant(&nobody.name, posting()).await;
    scene.grant(&nobody.name, right("db.acme.io/backup")).await;
    scene.grant(&nobody.name, right("db.example.com/*")).await;
    refused_saying(respond(&nobody.client, &one, named()).await, 403, "the verb respond");
    unanswered(&scene, &one).await;

    for (who, name, evacuation) in [("exact", FAILOVER, &one), ("domain", "db.acme.io/*", &two)] {
        let user = scene.user(who, &[]).await;
        scene.grant(&user.name, posting()).await;
        scene.grant(&user.name, right(name)).await;
        respond(&user.client, evacuation, named()).await.unwrap();
        scene.ends(evacuation, "Evacuated Evicted").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_a_relayed_answer_counts_only_for_an_endpoint_and_repeats_both_uids() {
    let scene = Scene::new("relay").await;
    // Nobody listens at that port: the controller itself relays nothing.
    let (watching, pushed) =
        tokio::join!(scene.pod("watching", PodSpec::watching()), scene.pod("pushed", PodSpec::pushed(9)),);
    let (watching, pushed) =
        tokio::join!(scene.ask_and_reach(&watching, json!({})), scene.ask_and_reach(&pushed, json!({})));
    let echo = |of: &Evacuation| json!({"answer": "Accept", "responder": "self", "evacuationUid": of.uid(), "podUid": of.spec.target.pod.uid});
    let controller = scene.controller().await;
    refused_saying(respond(&controller, &watching, echo(&watching)).await, 403, "\"self\"");
    unanswered(&scene, &watching).await;

    let status = refused(respond(&controller, &pushed, accept()).await);
    assert_eq!((status.code, fields(&status)), (422, vec!["spec.evacuationUid", "spec.podUid"]));
    let mut wrong = echo(&pushed);
    wrong["podUid"] = json!(watching.spec.target.pod.uid);
    refused_for(respond(&controller, &pushed, wrong).await, 409, "WrongPod");
    let mut wrong = echo(&pushed);
    wrong["evacuationUid"] = json!(watching.uid());
    refused_for(respond(&controller, &pushed, wrong).await, 409, "WrongEvacuation");
    let user = scene.user("user", &["evacuation:responder"]).await;
    let posting = json!({"group": "evacuation.dev", "resource": "evacuations", "subresource": "respond", "verb": "create"});
    scene.decided(&user.name, &posting, true).await;
    refused_saying(respond(&user.client, &pushed, echo(&pushed)).await, 403, "\"self\"");
    unanswered(&scene, &pushed).await;

    respond(&controller, &pushed, echo(&pushed)).await.unwrap();
    scene.ends(&pushed, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_nobody_answers_out_of_turn_nor_after_the_end() {
    let scene = Scene::new("turn").await;
    let spec = PodSpec::registered(&json!([{"name": FAILOVER, "priority": 20000}, {"name": "self"}]));
    let pod = scene.pod("app", spec).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    let app = scene.client_of(&pod).await;
    refused_for(answer(&app, &evacuation, accept()).await, 409, "ResponderNotActive");
    let unknown = json!({"answer": "Accept", "responder": "db.acme.io/unknown"});
    refused_for(respond(&scene.admin(), &evacuation, unknown).await, 422, "NoSuchResponder");
    unanswered(&scene, &evacuation).await;
    leave(&scene.evacuations(), &evacuation).await.unwrap();
    refused_for(answer(&app, &evacuation, accept()).await, 409, "EvacuationFinished");
    assert!(scene.stays(&pod).await);
}
