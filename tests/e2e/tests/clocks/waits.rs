//! Everything that waits for a time, once.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use controlplane::eventually;
use evacuation_api::{Evacuation, ReviewAction};
use evacuation_e2e::{
    Endpoint, PodSpec, Reply, answering,
    scene::{LATE, answer, first, responder},
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::wrong::Wrong;

/// Length of every wait in seconds: enough for the set-up on a busy machine, and to set a clock during it.
pub(crate) const WAIT: i64 = 20;

/// One that waits for a time.
pub(crate) struct Wait {
    what: &'static str,
    due: DateTime<Utc>,
    shows: Shows,
}

/// Record of the time at which it was done.
enum Shows {
    /// The attempt to evict or delete, by the API server's clock.
    Attempt,
    /// The end, by the API server's clock.
    End,
    /// That the Evacuation is removed, by the clock of the kube-apiserver, which is right.
    Removal,
    /// The question at an endpoint, by the test's clock, which is right.
    Reminder(Endpoint),
}

/// Times at which everything that waited was done.
pub(crate) struct Done(Vec<(&'static str, DateTime<Utc>, DateTime<Utc>)>);

impl Done {
    /// Nothing was early, and nothing later than it may be after its time or after `since`.
    pub(crate) fn in_time(&self, since: DateTime<Utc>) {
        for (what, due, done) in &self.0 {
            let late = *done - (*due).max(since);
            println!("{what}: {} ms late", late.num_milliseconds());
        }
        for (what, due, done) in &self.0 {
            assert!(due <= done, "{what} was early: due at {due}, done at {done}");
            let late = *done - (*due).max(since);
            assert!(late < LATE, "{what} was late by {late}: due at {due}, done at {done}, since {since}");
        }
    }
}

/// One pod for each, all at once; by now each waits.
pub(crate) async fn begin(scene: &Wrong) -> Vec<Wait> {
    let deadline = |pod: &'static str, action: &'static str| async move {
        let pod = scene.pod(pod, silent(&json!({"timeoutSeconds": 600}))).await;
        let time = (Utc::now() + TimeDelta::seconds(WAIT)).to_rfc3339_opts(SecondsFormat::Micros, true);
        let asked =
            scene.ask_as_named(&pod, &json!({"deadline": time, "atDeadline": action}), &json!({})).await;
        asked.spec.requesters[0].deadline.unwrap().time()
    };
    let lapse = async {
        let pod = scene.pod("lapse", silent(&json!({"timeoutSeconds": WAIT}))).await;
        let asked = reached(scene, &pod).await;
        first(&asked).active_time.unwrap().0 + TimeDelta::seconds(WAIT)
    };
    let delay = |name: &'static str, registered: Value, seconds: i64| async move {
        let pod = scene.pod(name, silent(&registered)).await;
        let asked = reached(scene, &pod).await;
        let spec = json!({"answer": "Delay", "delaySeconds": seconds});
        let granted = answer(&scene.client_of(&pod).await, &asked, spec).await.unwrap();
        granted.delay_until.unwrap().0
    };
    let (evict, delete, give_up, lapse, delay, longest, (retry, endpoint), removal) = tokio::join!(
        deadline("evict", "Evict"),
        deadline("delete", "Delete"),
        deadline("give-up", "GiveUp"),
        lapse,
        delay("delay", json!({}), WAIT),
        delay("longest", json!({"maxDelaySeconds": WAIT}), 600),
        retry(scene),
        removal(scene),
    );
    let wait = |what, due, shows| Wait { what, due, shows };
    vec![
        wait("evict", evict, Shows::Attempt),
        wait("delete", delete, Shows::Attempt),
        wait("give-up", give_up, Shows::End),
        wait("lapse", lapse, Shows::Attempt),
        wait("delay", delay, Shows::Attempt),
        wait("longest", longest, Shows::Attempt),
        wait("retry", retry, Shows::Reminder(endpoint)),
        wait("removal", removal, Shows::Removal),
    ]
}

/// Waits until everything that waited is done. The API server's clock is so far ahead of the right one.
pub(crate) async fn done(scene: &Wrong, waits: Vec<Wait>, ahead: TimeDelta) -> Done {
    let mut done = Vec::new();
    for Wait { what, due, shows } in waits {
        let at = match shows {
            Shows::Attempt => {
                let found = scene.until(what, "it is done", |e| attempt(e).is_some()).await;
                attempt(&found).unwrap()
            }
            Shows::End => {
                let found = scene.until(what, "it is done", |e| end(e).is_some()).await;
                end(&found).unwrap()
            }
            Shows::Removal => removed(scene, what).await + ahead,
            Shows::Reminder(endpoint) => endpoint.hears_at(ReviewAction::Remind).await.unwrap() + ahead,
        };
        done.push((what, due, at));
    }
    Done(done)
}

/// Nothing of what waits was done yet.
pub(crate) async fn nothing_is_done(scene: &Wrong, waits: &[Wait]) {
    for Wait { what, shows, .. } in waits {
        if let Shows::Reminder(endpoint) = shows {
            let asked = endpoint.asked();
            assert!(asked.iter().all(|asked| asked.action == ReviewAction::Ask), "{asked:?}");
            continue;
        }
        let found = scene.evacuations().get(what).await.unwrap();
        let ended = end(&found).is_some() && !matches!(shows, Shows::Removal);
        assert!(!ended && (attempt(&found).is_none() || matches!(shows, Shows::Removal)), "{found:?}");
    }
}

/// A pod whose app watches, registered with this beside its name.
fn silent(more: &Value) -> PodSpec {
    let mut entry = more.clone();
    entry["name"] = json!("self");
    PodSpec::registered(&json!([entry]))
}

/// Asks a pod, and waits until its app is asked.
async fn reached(scene: &Wrong, pod: &Pod) -> Evacuation {
    let asked = scene.ask_as_named(pod, &json!({}), &json!({})).await;
    scene.reached(&asked, 0).await
}

/// An app refuses, and names a time to ask again.
async fn retry(scene: &Wrong) -> (DateTime<Utc>, Endpoint) {
    let http = json!({"http": {"port": scene.port}, "timeoutSeconds": 600});
    let pod = scene.pod("retry", silent(&http)).await;
    let refuse = |question: &evacuation_api::ReviewRequest| {
        Reply::Json(answering(question, json!({"answer": "Refuse", "retryAfterSeconds": WAIT})))
    };
    let endpoint = Endpoint::of(&pod, scene.port, refuse).await.unwrap();
    scene.ask_as_named(&pod, &json!({"onRefusal": "Wait"}), &json!({})).await;
    let refused = |e: &Evacuation| responder(e, 0).is_some_and(|responder| responder.retry_time.is_some());
    let found = scene.until("retry", "the refusal is recorded", refused).await;
    (first(&found).retry_time.unwrap().0, endpoint)
}

/// An Evacuation that has ended, and whose time to live is not over.
async fn removal(scene: &Wrong) -> DateTime<Utc> {
    let pod = scene.pod("removal", PodSpec::default()).await;
    scene.ask_as_named(&pod, &json!({}), &json!({"ttlSecondsAfterFinished": WAIT})).await;
    let found = scene.until("removal", "it is done", |e| end(e).is_some()).await;
    end(&found).unwrap() + TimeDelta::seconds(WAIT)
}

/// Time at which the kube-apiserver forwarded the removal of an Evacuation.
async fn removed(scene: &Wrong, name: &str) -> DateTime<Utc> {
    let found = eventually(std::time::Duration::from_mins(1), "it is removed", || async {
        let events = scene.control_plane().audit_events().unwrap();
        let mut removals = events.into_iter().filter(|event| {
            (event.verb(), event.resource()) == ("delete", "evacuations")
                && (event.namespace(), event.name()) == (scene.namespace(), name)
                && event.code() == 200
        });
        removals.next().ok_or("it is there")
    });
    let time = found.await.unwrap().answered().unwrap();
    DateTime::from_timestamp_micros(time.as_microsecond()).unwrap()
}

fn attempt(evacuation: &Evacuation) -> Option<DateTime<Utc>> {
    let eviction = evacuation.status.as_ref()?.eviction.as_ref()?;
    eviction.last_attempt_time.map(|time| time.0)
}

fn end(evacuation: &Evacuation) -> Option<DateTime<Utc>> {
    evacuation.status.as_ref()?.finish_time.map(|time| time.0)
}
