//! Drains by rule: nodes that get and lose a mark.

use anyhow::{bail, ensure};
use controlplane::eventually;
use evacuation_api::{MarkedNodePhase, NodeEvacuation, NodeEvacuationRule, NodeEvacuationRuleStatus};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Scene,
    scene::{PATIENCE, quick},
};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::nodes::{Stage, is_cordoned};

/// The mark of the scenes.
const TAINT: &str = "example.com/spot";

impl Stage {
    fn rules(&self) -> Api<NodeEvacuationRule> {
        Api::all(self.scene.admin())
    }

    /// Creates a rule for the taint on this scene's nodes, with further fields of the spec. Its pods may be
    /// unmanaged.
    pub(crate) async fn rule(&self, name: &str, more: Value) -> NodeEvacuationRule {
        let mut spec = json!({
            "marks": [{"taint": {"key": TAINT}}],
            "nodeSelector": {"matchLabels": {"pool": self.scene.namespace()}},
            "maxNodes": "100%",
            "template": {"pods": {"unmanaged": "Evict"}},
        });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let rule =
            serde_json::from_value(json!({"metadata": {"name": self.name(name)}, "spec": spec})).unwrap();
        self.rules().create(&PostParams::default(), &rule).await.unwrap()
    }

    /// Gives a node the taint, with annotations, or takes it away.
    async fn mark(&self, number: usize, marked: bool, annotations: Value) {
        let taints = if marked { json!([{"key": TAINT, "effect": "PreferNoSchedule"}]) } else { Value::Null };
        let patch =
            Patch::Merge(json!({"metadata": {"annotations": annotations}, "spec": {"taints": taints}}));
        self.node_api().patch(&self.nodes[number], &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the status of a rule is as wanted.
    pub(crate) async fn rule_until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&NodeEvacuationRuleStatus) -> bool,
    ) -> NodeEvacuationRuleStatus {
        let (api, name) = (self.rules(), self.name(name));
        let found = eventually(PATIENCE, what, || async {
            let status = api.get(&name).await?.status.unwrap_or_default();
            if wanted(&status) { Ok(status) } else { bail!("{}", serde_json::to_string(&status)?) }
        });
        found.await.unwrap()
    }

    /// The drain that a rule opens for a node.
    fn drain_of_rule(&self, rule: &str, number: usize) -> String {
        format!("{}.{}", self.name(rule), self.nodes[number])
    }

    /// Waits until there is no drain of that name.
    async fn drain_gone(&self, name: &str) {
        let api = self.drains();
        let gone = eventually(PATIENCE, "the drain is gone", || async {
            ensure!(api.get_opt(name).await?.is_none(), "{name} is there");
            Ok(())
        });
        gone.await.unwrap();
    }
}

fn all(status: &NodeEvacuationRuleStatus, phases: &[MarkedNodePhase]) -> bool {
    status.nodes.iter().map(|node| node.phase).eq(phases.iter().copied())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_notice_is_drained_by_its_time_and_put_back_when_the_notice_goes() {
    let stage = Stage::new("notice", 1).await;
    // A responder that is silent for longer than the notice lasts.
    let spec = PodSpec::watching().on(&stage.nodes[0]);
    let pod = stage.scene.pod("app", spec).await;
    let deadline = json!({"from": {"annotation": "example.com/at"}, "reserveSeconds": 10});
    stage.rule("spot", json!({"deadline": deadline})).await;
    let at = chrono::Utc::now() + chrono::TimeDelta::seconds(30);
    stage.mark(0, true, json!({"example.com/at": at.to_rfc3339()})).await;

    let status = stage.rule_until("spot", "it is drained", |s| all(s, &[MarkedNodePhase::Drained])).await;
    let drain = stage.drain_of_rule("spot", 0);
    assert_eq!(status.nodes[0].node_evacuation.as_ref(), Some(&drain));
    let evicted = stage.scene.evicted_at(&pod.name_any());
    assert!(evicted < at, "{evicted} {at}");
    // The reserve, and some seconds more: the deadline of a drain has whole seconds.
    assert!(at - evicted < chrono::TimeDelta::seconds(14), "the window was used: {evicted} {at}");
    let opened: NodeEvacuation = stage.drains().get(&drain).await.unwrap();
    let requester = opened.status.unwrap().requester.unwrap();
    let rule = stage.rules().get(&stage.name("spot")).await.unwrap();
    assert_eq!(requester.user, rule.status.unwrap().requester.unwrap().user, "the user who made the rule");
    stage.node_until(0, "it is cordoned", is_cordoned).await;

    stage.mark(0, false, json!({"example.com/at": null})).await;
    stage.drain_gone(&drain).await;
    stage.node_until(0, "it is in service", |node| !is_cordoned(node)).await;
    stage.rule_until("spot", "no node is marked", |status| status.nodes.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_a_user_takes_back_stays_away_until_the_mark_comes_anew() {
    let stage = Stage::new("dismiss", 2).await;
    stage.scene.pod("app", quick(PodSpec::watching()).on(&stage.nodes[0])).await;
    stage.rule("spot", json!({})).await;
    stage.mark(0, true, Value::Null).await;
    stage.rule_until("spot", "it is being drained", |s| all(s, &[MarkedNodePhase::Draining])).await;
    let drain = stage.drain_of_rule("spot", 0);
    stage.drains().delete(&drain, &DeleteParams::default()).await.unwrap();
    stage.rule_until("spot", "it is dismissed", |s| all(s, &[MarkedNodePhase::Dismissed])).await;
    stage.drain_gone(&drain).await;
    stage.node_until(0, "it is in service", |node| !is_cordoned(node)).await;
    // The drain of another node shows that the rule was planned again, for the first node too.
    stage.mark(0, true, json!({"example.com/note": "again"})).await;
    stage.mark(1, true, Value::Null).await;
    let other = [MarkedNodePhase::Dismissed, MarkedNodePhase::Drained];
    stage.rule_until("spot", "the other node is drained", |s| all(s, &other)).await;
    assert!(stage.drains().get_opt(&drain).await.unwrap().is_none());

    stage.mark(1, false, Value::Null).await;
    stage.mark(0, false, Value::Null).await;
    stage.rule_until("spot", "no node is marked", |status| status.nodes.is_empty()).await;
    stage.mark(0, true, Value::Null).await;
    stage.rule_until("spot", "it is being drained", |s| all(s, &[MarkedNodePhase::Draining])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_rule_takes_its_drains_back_and_leaves_those_of_users() {
    let stage = Stage::new("unrule", 2).await;
    for number in [0, 1] {
        stage.scene.pod(&format!("app-{number}"), quick(PodSpec::watching()).on(&stage.nodes[number])).await;
    }
    stage.drain("mine", &[1], json!({"pods": {"unmanaged": "Evict"}})).await;
    stage.rule("spot", json!({})).await;
    for number in [0, 1] {
        stage.mark(number, true, Value::Null).await;
    }
    let both = [MarkedNodePhase::Draining; 2];
    stage.rule_until("spot", "both are being drained", |status| all(status, &both)).await;
    for number in [0, 1] {
        stage.node_until(number, "it is cordoned", is_cordoned).await;
    }
    stage.rules().delete(&stage.name("spot"), &DeleteParams::default()).await.unwrap();
    for number in [0, 1] {
        stage.drain_gone(&stage.drain_of_rule("spot", number)).await;
    }
    stage.node_until(0, "it is in service", |node| !is_cordoned(node)).await;
    assert!(is_cordoned(&stage.node(1).await), "the user's drain needs its cordon");
    let gone = eventually(PATIENCE, "the rule is gone", || async {
        let rule = stage.rules().get_opt(&stage.name("spot")).await?;
        ensure!(rule.is_none(), "{rule:?}");
        Ok(())
    });
    gone.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_marks_drains_no_more_nodes_than_the_limit_also_over_a_change_of_the_leader() {
    let scene = Scene::alone("storm", PlatformOptions::default()).await;
    let mut stage = Stage { scene, nodes: Vec::new() };
    for number in 0..6 {
        stage.add_node(number).await;
    }
    stage.rule("spot", json!({"maxNodes": 2})).await;
    for number in 0..6 {
        stage.mark(number, true, Value::Null).await;
    }
    let held = |status: &NodeEvacuationRuleStatus| (status.nodes_drained, status.nodes_held) == (2, 4);
    let status = stage.rule_until("spot", "four nodes are held back", held).await;
    let condition = status.conditions.iter().find(|condition| condition.type_ == "HoldsBack").unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "NodesHeld"));
    assert!(condition.message.contains("maxNodes is 2"), "{}", condition.message);

    stage.scene.kill_controller();
    stage.scene.start_controller().await;
    let number = status.nodes.iter().position(|node| node.phase == MarkedNodePhase::Held).unwrap();
    let name = status.nodes[number].name.clone();
    let number = stage.nodes.iter().position(|known| *known == name).unwrap();
    stage.mark(number, false, Value::Null).await;
    let held = |status: &NodeEvacuationRuleStatus| (status.nodes_drained, status.nodes_held) == (2, 3);
    stage.rule_until("spot", "three nodes are held back", held).await;
    // A node is recorded before its drain is created. A third drain would stay.
    let two = eventually(PATIENCE, "there are two drains", || async {
        let drains = stage.drains().list(&kube::api::ListParams::default()).await?.items;
        ensure!(drains.len() == 2, "{drains:?}");
        Ok(())
    });
    two.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_without_a_time_counts_from_when_it_is_seen_and_a_date_of_http_is_a_deadline() {
    let stage = Stage::new("timeless", 1).await;
    let marks = json!([{"condition": {"type": "KernelDeadlock", "forSeconds": 5}}]);
    let deadline = json!({"from": {"annotation": "example.com/at"}});
    stage.rule("spot", json!({"marks": marks, "deadline": deadline})).await;
    let at = chrono::Utc::now() + chrono::TimeDelta::hours(1);
    let date = at.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    stage.mark(0, false, json!({"example.com/at": date})).await;
    let blocked =
        json!({"type": "KernelDeadlock", "status": "True", "reason": "Probe", "message": "blocked"});
    let patch = Patch::Strategic(json!({"status": {"conditions": [blocked]}}));
    stage.node_api().patch_status(&stage.nodes[0], &PatchParams::default(), &patch).await.unwrap();

    let is_seen = |status: &NodeEvacuationRuleStatus| {
        let message = status.nodes.first().and_then(|node| node.message.as_deref());
        all(status, &[MarkedNodePhase::Pending]) && message.is_some_and(|m| m.contains("lastTransitionTime"))
    };
    let seen = stage.rule_until("spot", "the condition is seen", is_seen).await.nodes[0].since.0;
    stage.rule_until("spot", "it is drained", |status| all(status, &[MarkedNodePhase::Drained])).await;
    let drain = stage.drains().get(&stage.drain_of_rule("spot", 0)).await.unwrap();
    let opened = evacuation_api::from_condition_time(drain.metadata.creation_timestamp.as_ref().unwrap());
    // A creation has whole seconds.
    assert!(opened > seen + chrono::TimeDelta::seconds(4), "seen at {seen}, drained at {opened}");
    let left = drain.spec.requester.deadline_seconds.unwrap();
    assert!((1800..=3600).contains(&left), "{left}");

    stage.mark(0, false, json!({"example.com/at": "2026-11-26 12:00:00"})).await;
    let is_unread = |status: &NodeEvacuationRuleStatus| {
        let problem = status.nodes.first().and_then(|node| node.notice_problem.as_deref());
        status.nodes_unread == 1 && problem.is_some_and(|problem| problem.contains("time zone"))
    };
    stage.rule_until("spot", "the status names the notice", is_unread).await;
    let events: Api<Event> = Api::namespaced(stage.scene.admin(), "default");
    let name = stage.name("spot");
    let told = eventually(PATIENCE, "an Event tells of the notice", || async {
        let events = events.list(&kube::api::ListParams::default()).await?.items;
        let is_it = |event: &&Event| {
            event.reason.as_deref() == Some("NoticeUnread")
                && event.involved_object.name.as_deref() == Some(name.as_str())
        };
        match events.iter().find(is_it) {
            Some(event) => Ok(event.message.clone().unwrap_or_default()),
            None => bail!("none"),
        }
    });
    let told = told.await.unwrap();
    assert!(told.contains("\"2026-11-26 12:00:00\" is no time with a time zone"), "{told}");
}
