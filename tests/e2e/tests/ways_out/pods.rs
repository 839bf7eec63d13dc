//! Commands that `kubectl evacuate why` and the plugins name for one pod, run by a user of its namespace.

use std::time::Duration;

use evacuation_client::Answer;
use evacuation_e2e::Scene;
use serde_json::json;

use crate::{person::Person, room::Room, scene};

/// A user who may ask the pods of the scene's namespace to move, and read what `why` shows.
async fn requester<'s>(scene: &'s Scene, name: &str) -> Person<'s> {
    let person = Person::new(scene, name);
    let right = json!({"group": "", "resource": "pods", "verb": "get"});
    person.bind("view", &right).await;
    let right = json!({"group": "evacuation.dev", "resource": "evacuations", "verb": "create"});
    person.bind("evacuation:requester", &right).await;
    person
}

#[tokio::test(flavor = "multi_thread")]
async fn why_names_the_override_that_moves_a_pod_whose_app_refused() {
    let scene = scene("why").await;
    let bob = requester(&scene, "bob").await;
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    let namespace = scene.namespace();
    bob.runs(&format!("kubectl create evacuation app -n {namespace}")).await;
    let why = format!("kubectl evacuate why app -n {namespace}");
    let command = bob.reads(&why, "kubectl evacuate override ").await;
    let said = bob.runs(&command).await;
    assert!(said.contains("changed: on refusal Override"), "{said}");
    scene.pods.gone(&room.pod).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn override_keeps_a_delay_and_names_the_command_that_ends_it() {
    let scene = scene("delayed").await;
    let bob = requester(&scene, "bob").await;
    let room = Room::new(&scene, Answer::delay(Duration::from_mins(30))).await;
    let namespace = scene.namespace();
    bob.runs(&format!("kubectl create evacuation app -n {namespace}")).await;
    let evacuation = scene.evacuation_of("app").await;
    scene.answered(&evacuation, evacuation_api::Answer::Delay).await;
    let over = format!("kubectl evacuate override app -n {namespace}");
    let command = bob.reads(&over, "kubectl evacuate set ").await;
    assert!(scene.stays(&room.pod).await);
    bob.runs(&command).await;
    scene.pods.gone(&room.pod).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_nobody_asks_is_asked_by_the_command_that_override_names() {
    let scene = scene("nobody").await;
    let bob = requester(&scene, "bob").await;
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    let over = format!("kubectl evacuate override app -n {}", scene.namespace());
    let command = bob.reads(&over, "kubectl create evacuation ").await;
    bob.runs(&command).await;
    scene.pods.gone(&room.pod).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_another_is_changed_by_the_flags_that_the_error_names_and_the_role() {
    let scene = scene("another").await;
    let (bob, eve) = (requester(&scene, "bob").await, requester(&scene, "eve").await);
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    let namespace = scene.namespace();
    bob.runs(&format!("kubectl create evacuation app -n {namespace}")).await;
    let set = format!("kubectl evacuate set pod/app -n {namespace} --on-refusal=override");
    let error = eve.fails(&set).await;
    let flags = error.split("with the verb override: ").nth(1).unwrap().split("; ").next().unwrap().trim();
    let command = format!("{set} {flags}");
    let refused = eve.fails(&command).await;
    assert!(refused.contains("the ClusterRole evacuation:override grants it"), "{refused}");
    let right = json!({"group": "evacuation.dev", "resource": "evacuations", "verb": "override"});
    eve.bind("evacuation:override", &right).await;
    eve.runs_once_allowed(&command).await;
    scene.pods.gone(&room.pod).await.unwrap();
}
