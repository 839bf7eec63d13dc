//! Rules 6 and 7: what a write of the status can do and what it cannot, whoever writes.

use chrono::{TimeDelta, Utc};
use evacuation_api::{
    Answer, Evacuation, EvacuationStatus, EvictionStatus, RefusalPolicy, ResponderState, Timestamp,
};
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{answer, causes, first, refused, refused_for, status},
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Api, Error, ResourceExt, api::PostParams};
use serde_json::json;

/// A pod whose app was asked and is silent.
async fn asked(prefix: &str) -> (Scene, Pod, Evacuation) {
    let scene = Scene::new(prefix).await;
    let spec = PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 600}]));
    let pod = scene.pod("app", spec).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    (scene, pod, evacuation)
}

type Edit = fn(&mut EvacuationStatus);

/// Writes the status as it is now, but for an edit; again when the controller was first.
async fn write(
    api: &Api<Evacuation>,
    evacuation: &Evacuation,
    edit: impl Fn(&mut EvacuationStatus),
) -> kube::Result<Evacuation> {
    loop {
        let mut now = api.get(&evacuation.name_any()).await?;
        edit(now.status.get_or_insert_default());
        let written = api.replace_status(&now.name_any(), &PostParams::default(), &now).await;
        match written {
            Err(Error::Api(status)) if status.code == 409 && causes(&status).is_empty() => {}
            other => return other,
        }
    }
}

fn condition(kind: &str, reason: &str) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_6_what_has_ended_never_changes() {
    let (scene, pod, evacuation) = asked("ended").await;
    scene.withdraw(&evacuation).await.unwrap();
    let ended = scene.ends(&evacuation, "Failed Canceled").await;
    let api = scene.evacuations();
    let edits: [(&str, Edit); 4] = [
        ("another end", |s| {
            s.conditions = vec![condition("Evacuated", "GoneByOther")];
        }),
        ("no end", |s| s.conditions.clear()),
        ("asked again", |s| {
            s.responders.as_mut().unwrap()[0].state = ResponderState::Active;
        }),
        ("an attempt", |s| {
            s.eviction.get_or_insert_default().in_flight = true;
        }),
    ];
    for (what, edit) in edits {
        let status = refused_for(write(&api, &ended, edit).await, 409, "EvacuationFinished");
        assert!(status.message.contains("never changes"), "{what}: {status:?}");
    }
    assert_eq!(scene.get(&ended).await.status, ended.status);
    assert!(scene.stays(&pod).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_6_status_moves_only_along_the_table_of_transitions() {
    let (scene, pod, evacuation) = asked("forward").await;
    let api = scene.evacuations();
    let edits: [(&str, &str, Edit); 7] = [
        ("back to the beginning", "TransitionNotAllowed", |s| {
            s.responders.as_mut().unwrap()[0].state = ResponderState::Inactive;
        }),
        ("done without an answer", "TransitionNotAllowed", |s| {
            s.responders.as_mut().unwrap()[0].state = ResponderState::Completed;
        }),
        ("nobody is to be asked", "FieldValueInvalid", |s| {
            s.responders = Some(Vec::new());
        }),
        ("an attempt before the answer", "FieldValueInvalid", |s| {
            s.eviction = Some(EvictionStatus { in_flight: true, ..EvictionStatus::default() });
        }),
        ("accepted without an attempt", "FieldValueInvalid", |s| {
            s.eviction = Some(EvictionStatus { accepted: true, ..EvictionStatus::default() });
        }),
        ("evicted without an attempt", "FieldValueInvalid", |s| {
            s.conditions = vec![condition("Evacuated", "Evicted")];
        }),
        ("refused without a refusal", "FieldValueInvalid", |s| {
            s.conditions = vec![condition("Failed", "Refused")];
        }),
    ];
    for (what, cause, edit) in edits {
        let status = refused(write(&api, &evacuation, edit).await);
        assert_eq!(status.code, 422, "{what}: {status:?}");
        let causes = &status.details.as_ref().unwrap().causes;
        assert!(causes.iter().any(|c| c.reason == cause), "{what}: {status:?}");
    }
    assert_eq!(scene.get(&evacuation).await.status, evacuation.status);
    assert!(scene.stays(&pod).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_6_times_are_the_servers_and_nothing_lapses_before_them() {
    let (scene, _, evacuation) = asked("times").await;
    let api = scene.evacuations();
    let early = write(&api, &evacuation, |s| {
        s.responders.as_mut().unwrap()[0].state = ResponderState::Interrupted;
    });
    let status = refused_for(early.await, 409, "NotYet");
    let after = status.details.as_ref().unwrap().retry_after_seconds;
    assert!((500..=600).contains(&after), "{status:?}");

    let long_ago = Timestamp(Utc::now() - TimeDelta::hours(1));
    let written = write(&api, &evacuation, |s| {
        s.responders.as_mut().unwrap()[0].active_time = Some(long_ago);
        s.requesters[0].time = long_ago;
        s.finish_time = Some(long_ago);
    });
    let written = written.await.unwrap();
    assert_eq!(first(&written).active_time, first(&evacuation).active_time);
    assert_eq!(status_times(&written), status_times(&evacuation));

    let shorter = write(&api, &evacuation, |s| {
        s.responders.as_mut().unwrap()[0].timeout_seconds = 1;
    });
    refused_for(shorter.await, 422, "FieldValueInvalid");
    assert_eq!(first(&scene.get(&evacuation).await).timeout_seconds, 600);
}

fn status_times(evacuation: &Evacuation) -> (Vec<Timestamp>, Option<Timestamp>) {
    let status = status(evacuation);
    (status.requesters.iter().map(|r| r.time).collect(), status.finish_time)
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_7_the_controller_changes_neither_answers_nor_policy_nor_recorded_requesters() {
    let (scene, pod, evacuation) = asked("owned").await;
    answer(
        &scene.client_of(&pod).await,
        &evacuation,
        json!({"answer": "Delay", "delaySeconds": 500, "reason": "Busy"}),
    )
    .await
    .unwrap();
    let before =
        scene.until(&evacuation, "the delay is seen", |e| first(e).answer == Some(Answer::Delay)).await;
    let controller = scene.controller().await;
    let api = scene.evacuations_as(&controller);
    let edits: [(&str, Edit); 7] = [
        ("an answer", |s| {
            s.responders.as_mut().unwrap()[0].answer = Some(Answer::Accept);
        }),
        ("no answer", |s| s.responders.as_mut().unwrap()[0].answer = None),
        ("a shorter delay", |s| {
            s.responders.as_mut().unwrap()[0].delay_until = Some(Timestamp(Utc::now()));
        }),
        ("the reason of an answer", |s| {
            s.responders.as_mut().unwrap()[0].reason = Some("Bored".to_owned());
        }),
        ("the policy", |s| {
            s.policy.as_mut().unwrap().on_refusal = RefusalPolicy::Override;
        }),
        ("who asked", |s| s.requesters[0].user = "somebody".to_owned()),
        ("who asked, left out", |s| s.requesters.clear()),
    ];
    for (what, edit) in edits {
        let written = write(&api, &evacuation, edit).await.unwrap();
        assert_eq!(written.status, before.status, "{what}");
    }
    // Nor can it give the answer and act on it in one write.
    let both = write(&api, &evacuation, |s| {
        let responder = &mut s.responders.as_mut().unwrap()[0];
        responder.answer = Some(Answer::Accept);
        responder.state = ResponderState::Completed;
    });
    refused_for(both.await, 422, "TransitionNotAllowed");
    // The spec is not in a status, and as an update it is another's entry.
    let mut object = scene.get(&evacuation).await;
    object.spec.requesters[0].message = Some("hurry".to_owned());
    let written = api.replace_status(&object.name_any(), &PostParams::default(), &object).await.unwrap();
    assert_eq!(written.spec, before.spec);
    object.metadata.resource_version = None;
    let updated = api.replace(&object.name_any(), &PostParams::default(), &object).await;
    refused_for(updated, 403, "RequesterOfAnother");
    assert!(scene.stays(&pod).await);
}
