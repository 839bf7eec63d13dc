//! Every step that the controller takes with the status of an Eviction is one that Kubernetes' own validation
//! takes, at any time: responders that stall, report late or are done early, requesters that leave, pods that
//! go in between.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use chrono::{DateTime, TimeDelta, Utc};
use controlplane::{Binaries, Program};
use evacuation_api::{ConditionType, Evacuation, ResponderState, condition_time};
use evacuation_protocol::{Eviction, EvictionAct, EvictionRequest, EvictionWorld, plan_eviction};
use k8s_openapi::{
    api::{core::v1::Pod, lifecycle::v1alpha1::ResponderStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::{Value, json};

use crate::stage::{EVICTOR, states, words};

/// Number of walks, and of steps in each.
const WALKS: u64 = 300;
const STEPS: usize = 60;
/// The names of the responders in their order.
const NAMES: [&str; 3] = ["a.example.com/move", "b.example.com/move", "b.example.com/other"];
const UID: &str = "11111111-2222-4333-8444-555555555555";

/// A source of choices that is the same in every run.
struct Dice(u64);

impl Dice {
    /// Returns a number below `sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A pod with its objects, and the time.
struct Walk {
    now: DateTime<Utc>,
    dice: Dice,
    pod: Option<Pod>,
    request: EvictionRequest,
    eviction: Option<Eviction>,
    evacuation: Option<Evacuation>,
    updates: Vec<Value>,
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let count = usize::try_from(dice.roll(4)).unwrap();
        let named: Vec<_> =
            NAMES.iter().take(count).map(|name| json!({"name": name, "priority": 2000})).collect();
        let pod = json!({
            "metadata": {"name": "db-0", "namespace": "shop", "uid": UID},
            "spec": {"containers": [], "evictionResponders": named}, "status": {"phase": "Running"},
        });
        let request = json!({
            "metadata": {"name": "move", "namespace": "shop", "uid": "r1", "generation": 1},
            "spec": {"target": {"pod": {"name": "db-0", "uid": UID}}, "requester": "acme.io/a", "intent": "Eviction"},
        });
        Self {
            now: DateTime::from_timestamp(1_790_000_000, 0).unwrap(),
            dice,
            pod: Some(object(pod)),
            request: object(request),
            eviction: None,
            evacuation: None,
            updates: Vec::new(),
        }
    }

    /// Carries out the plan until it has nothing left to do now.
    fn settle(&mut self) {
        for _ in 0..12 {
            let world = EvictionWorld {
                namespace: "shop",
                name: "db-0",
                uid: UID,
                pod: self.pod.as_ref(),
                is_gone: self.pod.is_none(),
                requests: vec![&self.request],
                evictions: self.eviction.iter().collect(),
                evacuations: self.evacuation.iter().collect(),
                others_act: false,
            };
            let plan = plan_eviction(&world, self.now);
            let (mut created, mut entries, mut eviction, mut request) = (None, None, None, None);
            let mut answers = Vec::new();
            for act in plan.acts {
                match act {
                    EvictionAct::Ask(entry) => created = Some(self.begun(&json!([entry]))),
                    EvictionAct::Entries(_, next) => entries = Some(next),
                    EvictionAct::Create(new) | EvictionAct::Label(new) => eviction = Some(*new),
                    EvictionAct::Track(new) => {
                        let old = self.eviction.clone().unwrap();
                        self.updates.push(json!({"now": self.now, "old": old, "new": new}));
                        eviction = Some(*new);
                    }
                    EvictionAct::Report(new) => request = Some(*new),
                    EvictionAct::Speak(_, voice) => answers.push(voice),
                }
            }
            let idle = created.is_none() && entries.is_none() && eviction.is_none() && request.is_none();
            if idle && answers.is_empty() {
                return;
            }
            self.request = request.unwrap_or_else(|| self.request.clone());
            if let Some(mut eviction) = eviction {
                eviction.metadata.generation = Some(1);
                eviction.metadata.resource_version = Some("1".to_owned());
                self.eviction = Some(eviction);
            }
            self.evacuation = created.or(self.evacuation.take());
            if let Some(entries) = entries {
                let evacuation = self.evacuation.as_mut().unwrap();
                evacuation.spec.requesters = entries;
                if evacuation.spec.requesters.is_empty() {
                    self.end(ConditionType::Failed, "Canceled");
                }
            }
            for voice in answers {
                let (name, now) = (voice.responder, self.now);
                self.responder(&name, |known| {
                    known["answer"] = json!(voice.answer.answer);
                    known["answerTime"] = json!(now);
                    if voice.answer.acknowledge_cancellation {
                        known["cancellationAcknowledged"] = json!(true);
                    }
                    if voice.answer.answer == Some(evacuation_api::Answer::Accept) {
                        known["state"] = json!("Completed");
                    }
                });
                self.ask_next();
            }
        }
        panic!("the plan never comes to rest: {:#?} {:#?}", self.eviction, self.evacuation);
    }

    fn begun(&self, entries: &Value) -> Evacuation {
        let named = self.pod.as_ref().unwrap().spec.as_ref().unwrap().eviction_responders.clone();
        let responder = |name: &str| json!({"name": name, "priority": 2000, "timeoutSeconds": 60, "maxDelaySeconds": 86_400, "state": "Inactive"});
        let mut responders: Vec<_> =
            named.unwrap_or_default().iter().map(|known| responder(&known.name)).collect();
        if let Some(first) = responders.first_mut() {
            first["state"] = json!("Active");
            first["activeTime"] = json!(self.now);
        }
        object(json!({
            "metadata": {"name": "db-0-x", "namespace": "shop", "uid": format!("e-{}", self.now.timestamp())},
            "spec": {"target": {"pod": {"name": "db-0", "uid": UID}}, "requesters": entries},
            "status": {"conditions": [], "responders": responders, "requesters": []},
        }))
    }

    fn responder(&mut self, name: &str, change: impl Fn(&mut Value)) {
        let Some(evacuation) = &self.evacuation else { return };
        let mut value = serde_json::to_value(evacuation).unwrap();
        let all = value["status"]["responders"].as_array_mut().unwrap();
        if let Some(known) = all.iter_mut().find(|known| known["name"] == name) {
            change(known);
        }
        self.evacuation = Some(object(value));
    }

    /// Makes the first responder that was not asked Active, when no other one is.
    fn ask_next(&mut self) {
        let Some(all) = self.evacuation.as_ref().and_then(|e| e.status.clone()?.responders) else { return };
        let busy = all.iter().any(|known| known.state == ResponderState::Active);
        let next = all.iter().find(|known| known.state == ResponderState::Inactive);
        if let (false, Some(next)) = (busy, next) {
            let (name, now) = (next.name.clone(), self.now);
            self.responder(&name, |known| {
                known["state"] = json!("Active");
                known["activeTime"] = json!(now);
            });
        }
    }

    fn end(&mut self, kind: ConditionType, reason: &str) {
        let Some(evacuation) = &self.evacuation else { return };
        let mut value = serde_json::to_value(evacuation).unwrap();
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": reason, "message": "",
                   "lastTransitionTime": condition_time(self.now)})
        };
        value["status"]["conditions"] = json!([condition(kind.as_str()), condition("Finished")]);
        value["status"]["finishTime"] = json!(self.now);
        for known in value["status"]["responders"].as_array_mut().unwrap() {
            if kind == ConditionType::Failed || known["state"] == "Active" || known["state"] == "Inactive" {
                known["state"] = json!("Canceled");
            }
        }
        self.evacuation = Some(object(value));
    }

    fn is_open(&self) -> bool {
        let open = |e: &Evacuation| !e.status.as_ref().is_some_and(|s| s.is_true(ConditionType::Finished));
        self.evacuation.as_ref().is_some_and(open)
    }

    /// Changes what the active responder says in Kubernetes' own API.
    fn say(&mut self, change: impl Fn(&mut ResponderStatus)) {
        let Some(eviction) = &mut self.eviction else { return };
        let active = states(eviction)
            .into_iter()
            .find(|(_, state)| *state == "Active")
            .map(|(name, _)| name.to_owned());
        let status = eviction.status.as_mut().and_then(|status| status.responders.as_mut());
        let said = status.into_iter().flatten().find(|said| Some(&said.name) == active.as_ref());
        said.into_iter().filter(|said| said.name != EVICTOR).for_each(change);
    }

    /// Lets something happen, or time pass.
    fn step(&mut self) {
        let now = Time(condition_time(self.now).0);
        match self.dice.roll(12) {
            0 | 1 => self.say(|said| said.heartbeat_time = Some(now.clone())),
            2 | 3 => {
                self.say(|said| said.completion_time = said.completion_time.clone().or(Some(now.clone())));
            }
            4 => self.now += TimeDelta::minutes(21),
            5 => {
                let seconds = i64::try_from(self.dice.roll(1200)).unwrap();
                self.now += TimeDelta::seconds(seconds);
            }
            6 if self.is_open() => {
                // The controller's own turn: a delay ran out, or a deadline forced the next one.
                let active = self.evacuation.as_ref().and_then(|e| {
                    let all = e.status.clone()?.responders?;
                    all.into_iter().find(|known| known.state == ResponderState::Active)
                });
                if let Some(active) = active {
                    self.responder(&active.name, |known| known["state"] = json!("Interrupted"));
                    self.ask_next();
                }
            }
            7 => self.intend("Withdrawn"),
            8 => self.intend("Eviction"),
            9 if self.is_open() && self.dice.roll(3) == 0 => {
                self.pod = None;
                self.end(ConditionType::Evacuated, "Evicted");
            }
            10 if self.is_open() && self.dice.roll(4) == 0 => self.end(ConditionType::Failed, "Refused"),
            _ => self.now += TimeDelta::seconds(6),
        }
    }

    fn intend(&mut self, intent: &str) {
        if self.request.spec.intent != intent {
            intent.clone_into(&mut self.request.spec.intent);
            self.request.metadata.generation = self.request.metadata.generation.map(|number| number + 1);
        }
    }
}

#[test]
fn every_status_of_an_eviction_passes_kubernetes_own_validation_at_its_time() {
    let mut updates = Vec::new();
    let mut ends = std::collections::BTreeSet::new();
    let mut interrupted = 0;
    for seed in 0..WALKS {
        let mut walk = Walk::new(seed * 7919 + 1);
        for _ in 0..STEPS {
            walk.settle();
            walk.step();
        }
        walk.settle();
        if let Some(eviction) = &walk.eviction {
            ends.insert(words(eviction.status.as_ref().and_then(|status| status.conditions.as_deref())));
            interrupted += states(eviction).iter().filter(|(_, state)| *state == "Interrupted").count();
        }
        updates.append(&mut walk.updates);
    }
    let binaries = Binaries::find_or_build().unwrap();
    let mut checker = Command::new(binaries.path(Program::CheckEvictions))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = checker.stdin.take().unwrap();
    let lines: Vec<String> = updates.iter().map(Value::to_string).collect();
    let lines = lines.join("\n");
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = checker.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let answers = String::from_utf8(output.stdout).unwrap();
    let mut judged = 0;
    for (update, answer) in updates.iter().zip(answers.lines()) {
        assert_eq!(answer, "", "{update:#}");
        judged += 1;
    }
    assert_eq!(judged, updates.len());
    assert!(judged > 1500 && interrupted > 20, "{judged} updates, {interrupted} interrupted");
    assert_eq!(ends.len(), 4, "each end was reached: {ends:#?}");
}
