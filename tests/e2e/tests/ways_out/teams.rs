//! Two users and one drain.

use evacuation_api::{DrainBlockerReason, NodeEvacuation};
use evacuation_client::Answer;
use kube::{Api, ResourceExt};

use crate::{
    person::{Person, commands},
    room::{Room, drain_of, held},
    scene,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_paused_the_drain_of_another_resumes_it_by_the_nodes_name() {
    let scene = scene("pause").await;
    let ann = Person::drainer(&scene, "ann").await;
    let bob = Person::drainer(&scene, "bob").await;
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    let node = &room.node;
    ann.runs(&format!("kubectl evacuate node {node} --force --detach --on-refusal=wait")).await;
    let name = drain_of(&scene, node).await.name_any();
    let paused = bob.runs(&format!("kubectl evacuate pause {node}")).await;
    assert_eq!(paused.trim(), format!("nodeevacuation {name} paused"));
    assert!(drain_of(&scene, node).await.spec.paused);
    let refused = bob.fails(&format!("kubectl evacuate set {node} --on-refusal=override")).await;
    assert!(refused.contains("the ClusterRole evacuation:override grants it"), "{refused}");
    let resumed = bob.runs(&format!("kubectl evacuate resume node/{node}")).await;
    assert_eq!(resumed.trim(), format!("nodeevacuation {name} resumed"));
    assert!(!drain_of(&scene, node).await.spec.paused);
    ann.runs(&format!("kubectl evacuate set {node} --on-refusal=override")).await;
    scene.pods.gone(&room.pod).await.unwrap();
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_names_the_pods_that_go_all_the_same() {
    let scene = scene("cancel").await;
    let ann = Person::drainer(&scene, "ann").await;
    let room = Room::new(&scene, Answer::accept()).await;
    scene.finalizers(&room.pod, &["example.com/hold"]).await;
    ann.runs(&format!("kubectl evacuate node {} --force --detach", room.node)).await;
    scene.pod_until(&room.pod, "it terminates", |pod| pod.metadata.deletion_timestamp.is_some()).await;
    let said = ann.runs(&format!("kubectl evacuate cancel {}", room.node)).await;
    let pod = format!("going all the same: pod/{}/app (", scene.namespace());
    assert!(said.contains("0 requests taken back") && said.contains(&pod), "{said}");
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    let left = drains.list(&kube::api::ListParams::default()).await.unwrap().items;
    assert!(left.iter().all(|drain| drain.spec.nodes.names != [room.node.clone()]));
    scene.finalizers(&room.pod, &[]).await;
    scene.pods.gone(&room.pod).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_takes_a_node_out_of_the_drain_of_another_by_the_uncordon_that_cancel_names() {
    let scene = scene("takeout").await;
    let ann = Person::drainer(&scene, "ann").await;
    let bob = Person::drainer(&scene, "bob").await;
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    let node = &room.node;
    ann.runs(&format!("kubectl evacuate node {node} --force --detach --on-refusal=wait")).await;
    let name = drain_of(&scene, node).await.name_any();
    held(&scene, node, DrainBlockerReason::Refused).await;
    let refused = bob.fails(&format!("kubectl evacuate cancel {node}")).await;
    assert!(refused.contains(&format!("it is drained by {name}; ")), "{refused}");
    let named = commands(&refused);
    assert_eq!(named, [format!("kubectl uncordon {node}")], "{refused}");
    bob.runs(&named[0]).await;
    let evacuation = scene.evacuation_of("app").await;
    scene.ends(&evacuation, "Failed Canceled").await;
    assert!(scene.stays(&room.pod).await);
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}
