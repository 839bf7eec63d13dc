//! Pods of a PodGroup that can only be disrupted together.

use controlplane::{ControlPlane, output_of};
use evacuation_api::{BlockedReason, ConditionType, Evacuation, FailedReason};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene,
    scene::{ASKER, Bystander, CONTROLLER, answer, entry, quick, status, wanting},
};
use k8s_openapi::api::{
    core::v1::Pod,
    scheduling::{v1::PriorityClass, v1beta1::PodGroup},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;

/// User of the scheduler.
const SCHEDULER: &str = "system:kube-scheduler";
/// A refusal stops a preemption. The built-in row overrides refusals.
const CONFIGURATION: &str = "
apiVersion: gateway.evacuation.dev/v1alpha1
kind: GatewayConfiguration
callers:
- name: preemption
  matches:
  - users: [system:kube-scheduler]
  onRefusal: Wait
  patienceSeconds: 600
  retryAfterSeconds: 1
";

/// A platform with a gateway, whose control plane serves PodGroups.
static POOL: Pool = Pool::new(1, || PlatformOptions {
    control_plane: ControlPlane::builder()
        .feature_gates(&[("GenericWorkload", true)])
        .runtime_config(&["scheduling.k8s.io/v1beta1=true"]),
    gateway: Some(CONFIGURATION.to_owned()),
    ..PlatformOptions::default()
});

/// A gang of two: the app of each answers when the test does.
struct Gang {
    scene: Scene,
    /// Node of the first member.
    node: String,
    members: [Pod; 2],
}

impl Gang {
    async fn new(prefix: &str) -> Self {
        Self::of(prefix, &PodSpec::watching()).await
    }

    /// A gang whose members are as described, each on its own node.
    async fn of(prefix: &str, spec: &PodSpec) -> Self {
        let scene = Scene::from_pool(prefix, &POOL).await;
        let group = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}},
        });
        scene.create::<PodGroup>(group).await;
        let mut nodes = Vec::new();
        for name in ["first", "second"] {
            let name = format!("{name}-of-{}", scene.namespace());
            scene.control_plane().add_node(&name, &[]).await.unwrap();
            nodes.push(name);
        }
        let member = |node: &str| quick(spec.clone().in_group("gang")).on(node);
        let first = scene.pod("member-0", member(&nodes[0])).await;
        let second = scene.pod("member-1", member(&nodes[1])).await;
        let node = nodes.swap_remove(0);
        Self { scene, node, members: [first, second] }
    }

    /// Waits until the app of a member is asked.
    async fn asked(&self, place: usize) -> Evacuation {
        let evacuation = self.scene.evacuation_of(&self.members[place].name_any()).await;
        self.scene.reached(&evacuation, 0).await
    }

    async fn answers(&self, place: usize, evacuation: &Evacuation, said: &str) {
        let client = self.scene.client_of(&self.members[place]).await;
        let said = json!({"answer": said, "message": "the epoch is not saved"});
        answer(&client, evacuation, said).await.unwrap();
    }

    /// Asserts that both members run, and by the audit log that no call evicted or deleted one of them.
    async fn is_left_alone(&self) {
        for member in &self.members {
            assert!(self.scene.stays(member).await, "{}", member.name_any());
            self.scene.left_alone(&member.name_any());
        }
    }
}

/// One member on another node is asked as well, and every member waits for the last one.
///
/// # Attack
///
/// - Attacker: a user who drains the node of one member of a gang with kubectl
/// - Act: evicts that member, whose app accepts, while the app of another still saves its work
/// - Promise: 11
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_evicts_no_member_of_a_gang_before_every_member_is_done() {
    let gang = Gang::new("gang").await;
    let scene = &gang.scene;
    let beside = Bystander::new(scene).await;
    let mut command = scene.platform().kubectl_command();
    command.args(["drain", &gang.node, "--ignore-daemonsets", "--force", "--timeout=110s"]);
    let drain = tokio::spawn(async move { output_of("kubectl", command).await.unwrap() });

    let (first, second) = (gang.asked(0).await, gang.asked(1).await);
    assert_eq!(second.spec.requesters[0].owner, "admin", "{:?}", second.spec.requesters);
    gang.answers(0, &first, "Accept").await;
    let held = scene.until_condition(&first, "Blocked", BlockedReason::PodGroup.as_str()).await;
    let message = status(&held).true_condition(ConditionType::Blocked).unwrap().message.clone();
    assert!(message.contains("member-1"), "{message}");
    beside.drains(scene).await;
    assert!(!drain.is_finished());
    gang.is_left_alone().await;
    let settled = scene.get(&second).await;
    assert_eq!(settled.metadata.generation, Some(1), "nobody rewrites the entry: {:?}", settled.spec);
    assert!(scene.evictions("member-0").iter().all(|event| event.code() == 429));

    gang.answers(1, &second, "Accept").await;
    for member in [&first, &second] {
        let gone = |e: &Evacuation| status(e).is_true(ConditionType::Evacuated);
        scene.until(member, "the member is gone", gone).await;
    }
    let drained = drain.await.unwrap();
    assert!(drained.success(), "{drained:?}");
}

/// The refusal of one member is the answer of all.
///
/// # Attack
///
/// - Attacker: a user who evicts one member of a gang, whose app accepts
/// - Act: breaks the gang although the app of another member refuses
/// - Promise: 11
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_one_member_leaves_the_whole_gang_alone() {
    let gang = Gang::new("refusing-gang").await;
    let scene = &gang.scene;
    let beside = Bystander::new(scene).await;
    let first = scene.ask_and_reach(&gang.members[0], json!({"onRefusal": "GiveUp"})).await;
    let second = gang.asked(1).await;
    gang.answers(0, &first, "Accept").await;
    gang.answers(1, &second, "Refuse").await;
    scene.until_condition(&second, "Failed", FailedReason::Refused.as_str()).await;
    let failed = scene.until_condition(&first, "Failed", FailedReason::PodGroupRefused.as_str()).await;
    let message = status(&failed).true_condition(ConditionType::Failed).unwrap().message.clone();
    assert!(message.contains("member-1") && message.contains("the epoch is not saved"), "{message}");
    beside.drains(scene).await;
    gang.is_left_alone().await;
    assert!(scene.evicted().is_empty(), "nobody was evicted");
}

/// Without the right to disrupt each member, the gang stays as it is.
///
/// # Attack
///
/// - Attacker: a user who may evict one member of a gang alone
/// - Act: asks for that member, so that the controller asks the others, or evicts the member without them
/// - Promise: 2, 11
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_evict_one_member_of_a_gang_moves_none() {
    let gang = Gang::new("foreign-gang").await;
    let scene = &gang.scene;
    let beside = Bystander::new(scene).await;
    let user = scene.user("mallory", &[]).await;
    let create = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["create"]});
    scene.grant(&user.name, create("evacuation.dev", "evacuations")).await;
    let mut one = create("", "pods/eviction");
    one["resourceNames"] = json!(["member-0"]);
    scene.grant(&user.name, one).await;
    let wanted = wanting("member-0", &[entry(ASKER, json!({"onRefusal": "Wait"}))]);
    let api: Api<Evacuation> = Api::namespaced(user.client.clone(), scene.namespace());
    api.create(&PostParams::default(), &wanted).await.unwrap();
    let first = gang.asked(0).await;
    gang.answers(0, &first, "Accept").await;
    let held = scene.until_condition(&first, "Blocked", BlockedReason::PodGroup.as_str()).await;
    let message = status(&held).true_condition(ConditionType::Blocked).unwrap().message.clone();
    assert!(message.contains("member-1"), "{message}");
    beside.drains(scene).await;
    let asked = scene.evacuations().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(asked.len(), 1, "the other member is not asked on behalf of {}: {asked:?}", user.name);
    let tried = scene.control_plane().audit_events().unwrap().into_iter().filter(|event| {
        let created = event.verb() == "create" && event.resource() == "evacuations";
        created && event.namespace() == scene.namespace() && event.user() == CONTROLLER
    });
    let codes: Vec<u16> = tried.map(|event| event.code()).collect();
    assert!(!codes.is_empty() && codes.iter().all(|code| *code == 403), "{codes:?}");
    gang.is_left_alone().await;
    assert!(scene.evicted().is_empty(), "nobody was evicted");
}

/// The members give one answer to the scheduler, too: it is asked for both, whichever it deletes first.
///
/// # Attack
///
/// - Attacker: a pod of high priority that only fits in the place of a member of a gang
/// - Act: has kube-scheduler delete the members, of which one accepts, although the app of another refuses
/// - Promise: 11
#[tokio::test(flavor = "multi_thread")]
async fn a_preemption_takes_no_member_of_a_gang_while_the_app_of_one_refuses() {
    // The members terminate for longer than the scheduler waits between two tries. It would otherwise come
    // back from the deletion of the first member when both are gone, and forget the pod that needs the place.
    let spec = PodSpec::watching().cpus(600).annotation("controlplane.test/gone-after", "5s");
    let gang = Gang::of("preempted-gang", &spec).await;
    let scene = &gang.scene;
    let classes: Api<PriorityClass> = Api::all(scene.admin());
    let class = json!({"metadata": {"name": scene.namespace()}, "value": 1000});
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    let beside = Bystander::new(scene).await;
    let high = json!({
        "metadata": {"name": "high", "annotations": {"controlplane.test/gone-after": "100ms"}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": gang.node}, "tolerations": controlplane::tolerations(),
            "priorityClassName": scene.namespace(),
            "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "600"}}}],
        },
    });
    scene.raw_pod(&high).await;

    let (first, second) = (gang.asked(0).await, gang.asked(1).await);
    let mut entries = first.spec.requesters.iter().chain(&second.spec.requesters);
    assert!(entries.all(|entry| entry.owner == SCHEDULER), "{:?} {:?}", first.spec, second.spec);
    gang.answers(0, &first, "Accept").await;
    gang.answers(1, &second, "Refuse").await;
    scene.until_condition(&second, "Blocked", BlockedReason::Refused.as_str()).await;
    let held = scene.until_condition(&first, "Blocked", BlockedReason::Refused.as_str()).await;
    let message = status(&held).true_condition(ConditionType::Blocked).unwrap().message.clone();
    assert!(message.contains("member-1") && message.contains("the epoch is not saved"), "{message}");
    beside.drains(scene).await;
    gang.is_left_alone().await;
    let tries = [scene.deletions("member-0"), scene.deletions("member-1")].concat();
    assert!(tries.iter().any(|call| call.user() == SCHEDULER && call.code() == 429), "{tries:?}");

    gang.answers(1, &second, "Accept").await;
    for member in &gang.members {
        scene.pods.gone(member).await.unwrap();
    }
    let high = scene.pods.ready("high").await.unwrap();
    assert_eq!(high.spec.unwrap().node_name.as_deref(), Some(gang.node.as_str()));
}
