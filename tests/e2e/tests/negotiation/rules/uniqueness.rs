//! Rule 1: at most one active Evacuation per pod UID.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{ASKER, causes, entry, refused_for, wanting},
};
use futures::future::join_all;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn rule_1_of_twenty_creates_at_once_one_wins_and_the_others_are_told_its_name() {
    let scene = Scene::new("twenty").await;
    scene.pod("app", PodSpec::watching()).await;
    let creations = (0..20).map(|n| {
        let wanted = wanting("app", &[entry(&format!("test.evacuation.dev/n{n}"), json!({}))]);
        let api = scene.evacuations_as(&scene.admin());
        tokio::spawn(async move { api.create(&PostParams::default(), &wanted).await })
    });
    let results = join_all(creations).await;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().map(Result::unwrap).partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 19));
    let winner = won.into_iter().next().unwrap().unwrap().name_any();
    for refused in lost {
        let status = refused_for(refused, 409, "ActiveEvacuationExists");
        assert_eq!(causes(&status), [("ActiveEvacuationExists".to_owned(), winner.clone())]);
    }
    let all = scene.evacuations().list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_1_one_that_has_ended_never_blocks_a_new_one_whatever_holds_it() {
    let scene = Scene::new("ended").await;
    let pod = scene.pod("app", PodSpec::watching()).await;

    // Deleted, and held by a finalizer of somebody's.
    let mut held = wanting("app", &[entry(ASKER, json!({}))]);
    held.metadata.finalizers = Some(vec!["test.evacuation.dev/hold".to_owned()]);
    let api = scene.evacuations();
    let held = api.create(&PostParams::default(), &held).await.unwrap();
    let active = api.create(&PostParams::default(), &wanting("app", &[entry(ASKER, json!({}))])).await;
    refused_for(active, 409, "ActiveEvacuationExists");
    api.delete(&held.name_any(), &DeleteParams::default()).await.unwrap();

    // Canceled, and kept as history.
    let history = scene.ask(&pod, json!({})).await;
    scene.withdraw(&history).await.unwrap();

    let third = scene.ask(&pod, json!({})).await;
    let there: Vec<_> =
        api.list(&ListParams::default()).await.unwrap().items.iter().map(ResourceExt::name_any).collect();
    for evacuation in [&held, &history, &third] {
        assert!(there.contains(&evacuation.name_any()), "{there:?}");
    }
    let mut held = scene.get(&held).await;
    assert!(held.metadata.deletion_timestamp.is_some());
    held.metadata.finalizers = None;
    api.replace(&held.name_any(), &PostParams::default(), &held).await.unwrap();
    scene.removed(&held).await;
    assert!(
        evacuation_e2e::scene::end_of(&scene.get(&third).await).is_none(),
        "the end of an old one is not the end of the active one"
    );
}
