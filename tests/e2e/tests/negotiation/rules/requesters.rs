//! Rule 3: who made an entry, and who changes or removes it.

use evacuation_api::Evacuation;
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{User, causes, end_of, entry, refused_for, status, wanting},
};
use kube::{
    Api, Error, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

const ALICES: &str = "alice.example.com/repair";
const BOBS: &str = "bob.example.com/upgrade";

type Edit = fn(&mut Evacuation);

/// A pod that Alice and Bob both want moved.
struct Both {
    scene: Scene,
    alice: User,
    bob: User,
    evacuation: Evacuation,
}

async fn both(prefix: &str) -> Both {
    let scene = Scene::new(prefix).await;
    let (_, alice, bob) = tokio::join!(
        scene.pod("app", PodSpec::watching()),
        scene.user("alice", &["evacuation:requester"]),
        scene.user("bob", &["evacuation:requester"]),
    );
    let wanted = wanting("app", &[entry(ALICES, json!({}))]);
    let api = scene.evacuations_as(&alice.client);
    let created = api.create(&PostParams::default(), &wanted).await.unwrap();
    let evacuation = scene.reached(&created, 0).await;
    let mut both = Both { scene, alice, bob, evacuation };
    both.evacuation = both
        .write(&both.as_bob(), |e| {
            let own = entry(BOBS, json!({"reason": "Upgrade"}));
            e.spec.requesters.push(serde_json::from_value(own).unwrap());
        })
        .await
        .unwrap();
    both
}

impl Both {
    fn as_bob(&self) -> Api<Evacuation> {
        self.scene.evacuations_as(&self.bob.client)
    }

    /// Somebody writes the Evacuation as it is now, but for an edit; again when the controller was first.
    async fn write(&self, api: &Api<Evacuation>, edit: impl Fn(&mut Evacuation)) -> kube::Result<Evacuation> {
        loop {
            let mut edited = self.scene.get(&self.evacuation).await;
            edit(&mut edited);
            let written = api.replace(&edited.name_any(), &PostParams::default(), &edited).await;
            match written {
                Err(Error::Api(status)) if status.code == 409 && causes(&status).is_empty() => {}
                other => return other,
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_3_the_server_records_who_made_each_entry() {
    let both = both("recorded").await;
    let recorded = status(&both.evacuation).requesters;
    let made: Vec<_> = recorded.iter().map(|r| (r.name.as_str(), r.user.as_str())).collect();
    assert_eq!(made, [(ALICES, both.alice.name.as_str()), (BOBS, both.bob.name.as_str())]);
    assert!(recorded.iter().all(|r| r.groups.contains(&"system:authenticated".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_3_another_user_neither_changes_nor_removes_nor_forgets_an_entry() {
    let both = both("others").await;
    let bob = both.as_bob();
    let edits: [(&str, Edit); 4] = [
        ("changes", |e| {
            e.spec.requesters[0].message = Some("mine now".to_owned());
        }),
        ("removes", |e| {
            e.spec.requesters.remove(0);
        }),
        ("takes both away", |e| e.spec.requesters.clear()),
        ("forgets", |e| {
            e.spec.requesters[0].name = "bob.example.com/other".to_owned();
            e.spec.requesters[0].owner = String::new();
        }),
    ];
    for (what, edit) in edits {
        let status = refused_for(both.write(&bob, edit).await, 403, "RequesterOfAnother");
        assert!(status.message.contains(ALICES), "{what}: {status:?}");
    }
    let deleted = bob.delete(&both.evacuation.name_any(), &DeleteParams::default()).await;
    let status = refused_for(deleted, 403, "RequesterOfAnother");
    assert!(status.message.contains(ALICES), "{status:?}");
    let now = both.scene.get(&both.evacuation).await;
    assert_eq!(now.spec, both.evacuation.spec);
    assert_eq!(end_of(&now), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_3_who_holds_the_verb_override_changes_and_deletes_what_others_asked_for() {
    let both = both("override").await;
    let chief = both.scene.user("chief", &["evacuation:requester"]).await;
    let rule = json!({"apiGroups": ["evacuation.dev"], "resources": ["evacuations"], "verbs": ["override"],
        "resourceNames": [both.evacuation.name_any()]});
    both.scene.grant(&chief.name, rule).await;
    let api = both.scene.evacuations_as(&chief.client);
    let changed = both
        .write(&api, |e| {
            e.spec.requesters.remove(1);
            e.spec.requesters[0].message = Some("by order".to_owned());
        })
        .await
        .unwrap();
    assert_eq!(status(&changed).requesters[0].user, both.alice.name, "a changed entry keeps its maker");
    api.delete(&changed.name_any(), &DeleteParams::default()).await.unwrap();
    both.scene.ends(&changed, "Failed Canceled").await;
}
