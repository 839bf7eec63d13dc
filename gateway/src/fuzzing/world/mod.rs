//! A world around the judge, step by step: callers, the app, the controller, outages.

mod calls;
mod judging;
mod review;
mod step;

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::Answer;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

pub(super) use self::review::ASKING_COUNT;
pub use self::{
    review::CALLER_COUNT,
    step::{GatewayFlaw, GatewaySettings, GatewayStep},
};
use super::{
    law::GatewayLaw,
    oracle::Oracle,
    played::{Played, after, node_name},
    probes::Probes,
    watch::Watch,
};
use crate::namespace::NamespaceFacts;

/// A world in progress.
#[derive(Clone, Debug)]
pub struct GatewayWorld {
    played: Played,
    oracle: Oracle,
    /// The gateway's watch of Evacuations.
    watch: Watch,
    /// The pod in the gateway's cache, its UID, and true while the watch of pods delivers nothing.
    cached_pod: (Pod, String),
    lags: bool,
    namespace: NamespaceFacts,
    /// Time since which the evacuation API does not answer: nothing is written, and the cache stays as it is.
    api_away: Option<DateTime<Utc>>,
    /// True while the evacuation API answers, and rejects every new entry.
    rejects: bool,
    /// Time since which no controller leads: nobody acts.
    leaderless: Option<DateTime<Utc>>,
    /// Start of the first of the troubles that overlap.
    trouble_since: Option<DateTime<Utc>>,
    probes: Probes,
    flaw: Option<GatewayFlaw>,
}

impl GatewayWorld {
    /// Returns a world of a running pod that nobody has asked.
    pub fn new(settings: GatewaySettings) -> Self {
        let start = DateTime::<Utc>::UNIX_EPOCH + TimeDelta::days(20_000);
        let mut world = Self {
            played: Played {
                now: start,
                pod: 1,
                node: Some(0),
                made: start,
                cordoned: [false; 2],
                registered: settings.registered,
                room: !settings.full_budget,
                stored: Vec::new(),
                created: 0,
            },
            oracle: Oracle::default(),
            watch: Watch::default(),
            cached_pod: (Pod::default(), String::new()),
            lags: false,
            namespace: NamespaceFacts {
                terminating: false,
                asks_all: settings.asks_all,
                counts: settings.counts,
            },
            api_away: None,
            rejects: false,
            leaderless: None,
            trouble_since: None,
            probes: Probes::new(start),
            flaw: settings.flaw,
        };
        world.deliver_pod();
        world
    }

    /// Returns the first law that was broken on the way, and how.
    pub fn broken(&self) -> Option<&(GatewayLaw, String)> {
        self.oracle.broken()
    }

    /// Returns a number that is the same for equal states of worlds that were cloned from one.
    pub fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{self:?}").hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the state in one line.
    pub fn line(&self) -> String {
        let Self { played, api_away, leaderless, .. } = self;
        let (pod, node) = (played.uid(), played.node.map(node_name).unwrap_or_default());
        format!("{} {pod} on {node:?}, API away {api_away:?}, no leader {leaderless:?}", played.now)
    }

    /// Takes a step. One that is not possible changes nothing. Returns the outcome of a call in a word.
    pub fn step(&mut self, step: GatewayStep) -> Option<&'static str> {
        let mut outcome = None;
        match step {
            GatewayStep::Pass { seconds } => {
                // The probes of the last seconds of a longer pause are enough for a result. Those before only
                // show that the lease can be read.
                let mut left = seconds;
                while left > 0 {
                    let next = if left > 4 { (left - 4).min(10) } else { 1 };
                    left -= next;
                    self.played.now = after(self.played.now, next);
                    self.probes.probe(self.api_away.is_some(), self.leaderless, self.played.now);
                }
            }
            GatewayStep::Call { caller, by_uid } => outcome = self.call(caller, by_uid, 0),
            GatewayStep::Review { caller, by_uid, form } => outcome = self.call(caller, by_uid, form),
            GatewayStep::Answer { answer, seconds } if self.api_away.is_none() => {
                self.answer(answer, seconds);
            }
            GatewayStep::Control if self.acts() => self.control(),
            GatewayStep::Cordon { node } => {
                if let Some(cordoned) = self.played.cordoned.get_mut(node) {
                    *cordoned = !*cordoned;
                }
            }
            GatewayStep::Shift => self.played.room = !self.played.room,
            GatewayStep::Replace => self.replace(),
            GatewayStep::Api => self.toggle(|world| &mut world.api_away),
            GatewayStep::Reject => self.rejects = !self.rejects,
            GatewayStep::Lag => self.lags = !self.lags,
            GatewayStep::Lead => self.toggle(|world| &mut world.leaderless),
            GatewayStep::Withdraw { entry } if self.api_away.is_none() => self.withdraw(entry),
            GatewayStep::Silence => self.watch.is_silent = !self.watch.is_silent,
            GatewayStep::Deliver { events } if self.api_away.is_none() => self.watch.deliver(events),
            GatewayStep::List { whole } if self.api_away.is_none() => self.watch.list(whole),
            GatewayStep::Forget if self.api_away.is_none() => self.played.forget(),
            GatewayStep::Answer { .. }
            | GatewayStep::Control
            | GatewayStep::Withdraw { .. }
            | GatewayStep::Deliver { .. }
            | GatewayStep::List { .. }
            | GatewayStep::Forget => {}
        }
        self.deliver();
        if !self.lags {
            self.deliver_pod();
        }
        outcome
    }

    fn toggle(&mut self, trouble: impl FnOnce(&mut Self) -> &mut Option<DateTime<Utc>>) {
        let now = self.played.now;
        let since = trouble(self);
        *since = if since.is_some() { None } else { Some(now) };
        // Two troubles overlap when the second begins before the end of the first.
        let began = self.trouble();
        let first = self.trouble_since.filter(|_| began.is_some_and(|began| began < now)).or(began);
        if first != self.trouble_since {
            self.trouble_since = first;
            self.oracle.worked();
        }
        self.probes.probe(self.api_away.is_some(), self.leaderless, now);
    }

    /// Returns true while a controller acts.
    fn acts(&self) -> bool {
        self.api_away.is_none() && self.leaderless.is_none()
    }

    /// Returns the start of the trouble that lasts, from which an outage can come.
    fn trouble(&self) -> Option<DateTime<Utc>> {
        self.api_away.into_iter().chain(self.leaderless).min()
    }

    fn answer(&mut self, said: Answer, seconds: i64) {
        if let Some(reply) = self.played.answer(said, seconds) {
            self.oracle.answered(said, &reply);
        }
    }

    fn control(&mut self) {
        let was_active = self.played.active().is_some();
        if self.played.control() {
            return self.replace();
        }
        self.oracle.recorded(self.played.now);
        if was_active && self.played.active().is_none() {
            self.oracle.ended();
        }
        self.oracle.looked(self.played.registered, self.played.room, self.played.now);
    }

    /// Another pod gets the name. While nobody acts, nobody records the end of the earlier one's Evacuation.
    fn replace(&mut self) {
        self.oracle.replaced(self.played.node);
        self.played.replace();
        if self.acts() {
            self.played.control();
            self.oracle.recorded(self.played.now);
        }
    }

    /// An entry leaves, as after a rollout that was undone.
    fn withdraw(&mut self, entry: usize) {
        let entry = self.played.active().and_then(|active| {
            let all = &active.spec.requesters;
            all.get(entry % all.len().max(1)).cloned()
        });
        if let Some(entry) = entry.filter(|entry| self.played.remove(entry)) {
            self.oracle.left(&entry);
        }
    }

    /// Each change of what is stored is an event of the watch, which delivers them unless it is silent.
    fn deliver(&mut self) {
        self.watch.store(&self.played.stored);
        if self.api_away.is_none() && !self.watch.is_silent {
            self.watch.deliver_all();
        }
    }

    fn deliver_pod(&mut self) {
        self.cached_pod = (self.pod(), self.played.uid());
    }

    /// Returns the present pod, which never changes.
    fn pod(&self) -> Pod {
        let (pod, uid) = &self.cached_pod;
        if *uid == self.played.uid() {
            return pod.clone();
        }
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "o", "controller": true});
        let pod = json!({
            "metadata": {
                "name": "db-0", "namespace": "shop", "uid": self.played.uid(), "ownerReferences": [owner],
                "resourceVersion": self.played.pod.to_string(),
                "creationTimestamp": self.played.made,
            },
            "spec": {"nodeName": self.played.node.map(node_name), "terminationGracePeriodSeconds": 30, "containers": []},
            "status": {"phase": "Running"},
        });
        serde_json::from_value(pod).unwrap_or_default()
    }
}
