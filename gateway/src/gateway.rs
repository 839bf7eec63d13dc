//! The answer to one call: facts from the caches, the pure decision, and the calls to the API that follow.

mod counting;
mod overload;
mod report;

use std::{
    ops::ControlFlow::{self, Break, Continue},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use chrono::TimeDelta;
use evacuation_api::{CallerRow, Evacuation, Operation, PodTarget, Requester};
use evacuation_protocol::disrupts;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::{
    answer::{Answer, Unasked},
    asking::{AskError, Asker},
    attestation::{self, Attestations},
    call::Call,
    cluster::{Cluster, Records},
    config::ConfigurationFile,
    events::EventSink,
    judge::{
        Facts, Mate, Pass, Reply, Sight, Trusted, Unwritten, Verdict, asked_mate, cuts_grace, is_forced,
        is_of_record, judge, other_node, unwritten, waits_to_be_counted,
    },
    ledger::Ledger,
    limiter::Limiter,
    metrics::Metrics,
    node::takes,
    path_tokens::PathTokens,
    pod::Shown,
    rights::Rights,
    surplus::SurplusReader,
};

/// A view of the pod of a call.
type View = (Arc<Pod>, Sight);

/// The decision by the caches, and the Evacuations that it depends on.
struct Decision {
    verdict: Verdict,
    /// True when the call passes if it is surplus.
    waits_to_be_counted: bool,
    records: Records,
    /// The Evacuation of another pod of the PodGroup whose app is asked, or has not let the pods go.
    asked_mate: Option<Arc<Evacuation>>,
    /// Name of the Evacuation of the pod that the API server could not read when it last answered.
    unreadable: Option<String>,
}

/// Answers calls. It keeps no state but caches.
pub(crate) struct Gateway {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) configuration: Arc<ConfigurationFile>,
    pub(crate) asker: Asker,
    pub(crate) ledger: Ledger,
    pub(crate) surplus: SurplusReader,
    pub(crate) rights: Rights,
    pub(crate) limiter: Limiter,
    pub(crate) events: EventSink,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) trusted: Trusted,
    /// Maximum time from the start of an outage in which an answer holds.
    pub(crate) longest_hold: TimeDelta,
    /// Tokens by which the kube-apiserver proves itself.
    pub(crate) tokens: Arc<PathTokens>,
    /// Judge of the tokens of calls; `None` where the path alone proves the kube-apiserver.
    pub(crate) attestations: Option<Arc<Attestations>>,
    /// True while the process ends: each connection then closes after its next answer.
    pub(crate) closing: AtomicBool,
}

impl Gateway {
    /// Returns true while the process ends.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Answers a call within that time, of which the review of its token has taken a part. `shown` is the
    /// state of the pod that the kube-apiserver means, if it is known. A cached pod in another state is
    /// stale.
    pub(crate) async fn answer_within(
        &self,
        time: Duration,
        call: &Call,
        shown: Option<Shown<'_>>,
    ) -> Answer {
        let began = Instant::now();
        let cached = self.cluster.pod(&call.namespace, &call.pod);
        let is_current = |pod: &Arc<Pod>| shown.is_none_or(|shown| shown.is(pod));
        let known = cached.clone().filter(is_current);
        let table = self.configuration.table();
        let usual = cached.as_ref().map(|pod| table.row(call, pod));
        let mut row = "unknown";
        // Until a newer view of the pod is there, the cached one says whether its app is to be asked.
        let mut concerned = cached.map(|pod| (pod, Sight::Cached { fresh: false }));
        let work = async {
            let (mut pod, mut sight) = match known {
                Some(pod) if shown.is_some() => (pod, Sight::Live { drained_before: false }),
                Some(pod) => (pod, Sight::Cached { fresh: self.cluster.has_fresh_pods() }),
                None => self.look(call, usual).await?,
            };
            loop {
                concerned = Some((Arc::clone(&pod), sight));
                // The row of the call can depend on the pod.
                let found = table.row(call, &pod);
                row = &found.name;
                self.learn_group(call, &pod).await;
                match self.decide(call, &pod, sight, found, time).await {
                    Break(answer) => return Ok(answer),
                    Continue(newer) => (pod, sight) = newer,
                }
            }
        };
        // The review of the caller's token came before.
        let reviewed = self.attestations.as_ref().map(|_| attestation::TIMEOUT).unwrap_or_default();
        let answer = match timeout(time.saturating_sub(reviewed), work).await {
            Ok(Ok(answer) | Err(answer)) => answer,
            Err(_) => Answer::Unasked(Unasked::Late),
        };
        let answer = match answer {
            Answer::Unasked(reason @ (Unasked::Late | Unasked::Busy | Unasked::PodUnread)) => {
                self.undecided(call, concerned.as_ref(), &table, reason)
            }
            answer => answer,
        };
        let answer = match (answer, &concerned) {
            (Answer::Wait(reply), Some((pod, _))) if cuts_grace(call, pod, table.row(call, pod)) => {
                Answer::Wait(reply.without_retry())
            }
            (answer, _) => answer,
        };
        let answer = match (answer, self.cluster.outage(self.cluster.now())) {
            (Answer::Wait(reply), Some(outage)) => Answer::Wait(reply.in_outage(outage)),
            (answer, _) => answer,
        };
        let pod = concerned.as_ref().map(|(pod, _)| &**pod);
        self.report(call, pod, row, &answer, began.elapsed());
        answer
    }

    /// Reads the pod of a call live. The error is the answer where there is no pod.
    async fn read(&self, call: &Call, row: Option<&CallerRow>) -> Result<Pod, Answer> {
        let _slot = self.slot(call, row).await?;
        self.metrics.pods_read.inc();
        match self.cluster.read_pod(&call.namespace, &call.pod).await {
            Ok(Some(pod)) => Ok(pod),
            // The kube-apiserver says that it does not exist.
            Ok(None) => Err(Answer::Pass(Pass::Leaving)),
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "pod {} cannot be read", call.target());
                Err(Answer::Unasked(Unasked::PodUnread))
            }
        }
    }

    /// Reads the pod of a call live, with the nodes that tell a retry for an earlier pod from a new question.
    async fn look(&self, call: &Call, row: Option<&CallerRow>) -> Result<View, Answer> {
        let pod = self.read(call, row).await?;
        let drained_before = call.operation == Operation::Evict && self.drained_before(call, &pod).await;
        Ok((Arc::new(pod), Sight::Live { drained_before }))
    }

    /// Returns true when the node of the earlier pod of this name takes no more pods like this one, or is
    /// gone, and the node of this pod takes them. A node that cannot be read proves nothing.
    async fn drained_before(&self, call: &Call, pod: &Pod) -> bool {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let Some(before) = self.cluster.records(&call.namespace, &call.pod, uid).predecessor else {
            return false;
        };
        let Some((earlier, now)) = other_node(pod, &before) else { return false };
        let read = tokio::try_join!(self.cluster.read_node(earlier), self.cluster.read_node(now));
        read.is_ok_and(|(earlier, now)| {
            earlier.is_none_or(|node| !takes(&node, pod)) && now.is_some_and(|node| takes(&node, pod))
        })
    }

    /// Decides by the caches alone.
    fn decision(&self, call: &Call, pod: &Pod, sight: Sight, row: &CallerRow) -> Decision {
        let now = self.cluster.now();
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let records = self.cluster.records(&call.namespace, &call.pod, uid);
        let unreadable = self.cluster.unreadable(uid);
        let group = self.cluster.mates(pod);
        let facts = Facts {
            call,
            pod,
            sight,
            registered: self.is_asked(pod, row, &group),
            namespace: self.cluster.namespace(&call.namespace),
            active: records.active.as_deref(),
            last: records.last.as_deref(),
            predecessor: records.predecessor.as_deref(),
            unreadable: unreadable.as_deref(),
            group: &group,
            row,
            trusted: &self.trusted,
            outage: self.cluster.outage(now),
            longest_hold: self.longest_hold,
            now,
        };
        let verdict = judge(&facts);
        let waits_to_be_counted = waits_to_be_counted(&facts, &verdict);
        let asked_mate = asked_mate(&facts).cloned();
        Decision { verdict, waits_to_be_counted, records, asked_mate, unreadable }
    }

    /// Decides by a view of the pod, for a call that is answered in that time. Continues with a newer view
    /// where that is not enough.
    async fn decide(
        &self,
        call: &Call,
        pod: &Arc<Pod>,
        sight: Sight,
        row: &CallerRow,
        time: Duration,
    ) -> ControlFlow<Answer, View> {
        let Decision { mut verdict, waits_to_be_counted, records, asked_mate, unreadable } =
            self.decision(call, pod, sight, row);
        let is_live = matches!(sight, Sight::Live { .. });
        if is_live && waits_to_be_counted && self.surplus.is_surplus(call, pod, time / 4).await {
            verdict = Verdict::Pass(Pass::Surplus);
        }
        if is_of_record(&verdict, self.is_api_away())
            && let Some(known) = records.active.as_deref()
        {
            match self.is_current(call, row, known).await {
                Ok(true) => {}
                Ok(false) => return Continue((Arc::clone(pod), sight)),
                Err(answer) => return Break(answer),
            }
        }
        if let Verdict::Pass(pass) = verdict {
            // Before the first lists a pod can look as if it were not registered.
            let unsure = pass == Pass::Unregistered && !self.cluster.not_synced().is_empty();
            return Break(if unsure { Answer::Unasked(Unasked::Starting) } else { Answer::Pass(pass) });
        }
        if is_forced(call, pod) && self.may_override(call).await {
            return Break(Answer::Pass(Pass::Forced));
        }
        if call.resource_version.is_some() && verdict.holds() {
            if is_live {
                if let Some(wanted) = call.other_version(pod) {
                    return Break(Answer::Wait(Reply::other_version(call, pod, wanted)));
                }
            } else {
                // A cached pod with that version can have another one by now.
                match self.look(call, Some(row)).await {
                    // A pod that cannot be read is no reason to pass: its app is asked as usual.
                    Err(Answer::Unasked(_)) => {}
                    read => return read.map_or_else(Break, Continue),
                }
            }
        }
        match verdict {
            Verdict::Pass(pass) => Break(Answer::Pass(pass)),
            Verdict::Open(way) => Break(Answer::Unasked(Unasked::Outage(way))),
            Verdict::Wait(reply) => Break(Answer::Wait(reply)),
            Verdict::Ask { .. } if call.dry_run => Break(Answer::Wait(Reply::dry_run(call, row))),
            Verdict::Ask { entry, expired_in } => {
                match self.ask(call, pod, row, *entry, expired_in.as_deref(), &records).await {
                    Break(Answer::Unasked(Unasked::ApiDown)) => {
                        // A pause of seconds is no outage, in which the judge decides by the other members.
                        let mate = asked_mate.filter(|_| !self.is_api_away());
                        Break(match (mate, unreadable) {
                            (Some(mate), _) => {
                                Answer::Wait(Reply::waiting(call, row, &mate, self.cluster.now()))
                            }
                            (None, Some(name)) => Answer::Wait(Reply::unread(call, row, &name, None)),
                            (None, None) => Answer::Unasked(Unasked::ApiDown),
                        })
                    }
                    answer => answer,
                }
            }
            Verdict::Count { entry, expired_in } => {
                self.count(call, pod, row, (*entry, expired_in), &records, time).await
            }
            Verdict::Look => self.look(call, Some(row)).await.map_or_else(Break, Continue),
        }
    }

    /// Returns true when the cache has the Evacuation as it is now: by now it could have been canceled, and
    /// the app have refused another. One that cannot be read counts as it was recorded.
    async fn is_current(&self, call: &Call, row: &CallerRow, known: &Evacuation) -> Result<bool, Answer> {
        let _slot = self.slot(call, Some(row)).await?;
        match self.cluster.is_current(known).await {
            Ok(is_current) => Ok(is_current),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(error, "pod {}: its evacuation cannot be read and counts as recorded", call.target());
                Ok(true)
            }
        }
    }

    /// Returns true when responders are registered for the pod, or for another that is disrupted with it.
    pub(super) fn is_asked(&self, pod: &Pod, row: &CallerRow, group: &[Mate]) -> bool {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        self.cluster.is_registered(pod)
            || (disrupts(&row.entry_name()) && self.cluster.is_any_registered(namespace, group))
    }

    /// Reads the mode of the pod's PodGroup, if that is not known. Without a slot, or an answer in time, the
    /// group's pods count as disrupted together.
    async fn learn_group(&self, call: &Call, pod: &Pod) {
        if self.cluster.knows_group(pod) {
            return;
        }
        let Ok(_slot) = self.slot(call, None).await else { return };
        if let Err(error) = self.cluster.read_group(pod).await {
            let error = &error as &dyn std::error::Error;
            warn!(error, "pod {}: its PodGroup cannot be read", call.target());
        }
    }

    async fn may_override(&self, call: &Call) -> bool {
        match self.rights.may_override(call).await {
            Ok(may) => may,
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "pod {}: the rights of {} are not known, asking the pod",
                    call.target(),
                    call.user.name
                );
                false
            }
        }
    }

    /// Writes the entry, and tells the caller to wait.
    async fn ask(
        &self,
        call: &Call,
        pod: &Pod,
        row: &CallerRow,
        entry: Requester,
        expired_in: Option<&str>,
        records: &Records,
    ) -> ControlFlow<Answer, View> {
        let now = self.cluster.now();
        let slot = match (self.slot(call, Some(row)).await, &records.active) {
            (Ok(slot), _) => slot,
            // The app is being asked, although this caller's entry is not renewed now.
            (Err(_), Some(active)) => return Break(Answer::Wait(Reply::waiting(call, row, active, now))),
            (Err(answer), None) => return Break(answer),
        };
        let target = PodTarget { name: call.pod.clone(), uid: pod.metadata.uid.clone() };
        let error = match self.asker.ask(call, target, entry.clone(), expired_in).await {
            Ok(evacuation) => {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                self.limiter.asked(uid);
                self.cluster.note_written(uid, &evacuation);
                return Break(Answer::Wait(Reply::waiting(call, row, &evacuation, now)));
            }
            Err(error) => error,
        };
        if let AskError::Unreadable { evacuation: Some(name), .. } = &*error {
            self.cluster.note_unreadable(pod.metadata.uid.as_deref().unwrap_or_default(), name);
        }
        let before = (records.active.as_deref(), expired_in.is_some());
        match unwritten(call, row, &entry, before, &error, now) {
            Unwritten::Gone => {
                drop(slot);
                self.successor(call, pod, row).await
            }
            Unwritten::Waits(reply) => {
                info!("pod {}: the entry of {} was not written: {error}", call.target(), call.user.name);
                Break(Answer::Wait(reply))
            }
            Unwritten::Unasked => {
                let error = &*error as &dyn std::error::Error;
                warn!(error, "pod {}: its app was not asked", call.target());
                Break(Answer::Unasked(Unasked::ApiDown))
            }
        }
    }

    /// Looks again after the pod of the cache turned out to be gone: another may have its name by now.
    async fn successor(&self, call: &Call, gone: &Pod, row: &CallerRow) -> ControlFlow<Answer, View> {
        match self.look(call, Some(row)).await {
            Ok((pod, _)) if pod.metadata.uid == gone.metadata.uid => Break(Answer::Wait(Reply::rejected(
                call,
                row,
                "the pod is there, and the API says that it is gone",
            ))),
            Ok(view) => Continue(view),
            Err(answer) => Break(answer),
        }
    }
}

#[cfg(test)]
mod tests;
