//! The answer to one call: facts from the caches, the pure decision, and the calls to the API that follow.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use chrono::Utc;
use evacuation_api::{PodTarget, Requester};
use k8s_openapi::api::core::v1::Pod;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use crate::{
    asking::{AskError, Asker},
    call::Call,
    cluster::{Cluster, Records},
    config::{ConfigurationFile, Row, Table},
    events::EventSink,
    judge::{Facts, Pass, Reply, Trusted, Verdict, is_forced, judge},
    ledger::{Counted, Ledger},
    limiter::{Limiter, NoSlot, Slot},
    metrics::Metrics,
    rights::Rights,
};

/// Maximum time of an answer. The kube-apiserver waits for a second.
const DEADLINE: Duration = Duration::from_millis(800);
/// Maximum time in which a call waits for its turn.
const TURN: Duration = Duration::from_millis(300);

/// Reason for which a call passed although the app should have been asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unasked {
    /// The caches are not filled yet.
    Starting,
    /// There was no answer within the deadline.
    Late,
    /// The evacuation API did not answer.
    ApiDown,
    /// The evacuation API rejected the entry.
    Rejected,
    /// The pod could not be read.
    PodUnread,
    /// All users together have too many calls in progress.
    Busy,
}

impl Unasked {
    fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Late => "late",
            Self::ApiDown => "api_down",
            Self::Rejected => "rejected",
            Self::PodUnread => "pod_unread",
            Self::Busy => "busy",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Starting => "the gateway has just started",
            Self::Late => "the gateway had no answer in time",
            Self::ApiDown => "the evacuation API did not answer",
            Self::Rejected => "the evacuation API rejected the request",
            Self::PodUnread => "the pod could not be read",
            Self::Busy => "the gateway has too many calls in progress",
        }
    }
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The call passes.
    Pass(Pass),
    /// The call passes although the app should have been asked.
    Unasked(Unasked),
    /// The caller waits.
    Wait(Reply),
}

/// Answers calls. It keeps no state but caches.
pub(crate) struct Gateway {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) configuration: Arc<ConfigurationFile>,
    pub(crate) asker: Asker,
    pub(crate) ledger: Ledger,
    pub(crate) rights: Rights,
    pub(crate) limiter: Limiter,
    pub(crate) events: EventSink,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) trusted: Trusted,
    /// True while the process ends: each connection then closes after its next answer.
    pub(crate) closing: AtomicBool,
}

impl Gateway {
    /// Returns true while the process ends.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Answers a call within [`DEADLINE`]. `pod` is the one that the kube-apiserver sent along, if it did.
    pub(crate) async fn answer(&self, call: &Call, pod: Option<Pod>) -> Answer {
        let began = Instant::now();
        let known = pod.map(Arc::new).or_else(|| self.cluster.pod(&call.namespace, &call.pod));
        let table = self.configuration.table();
        let mut row = "unknown";
        let mut concerned = None;
        let work = async {
            let pod = match known {
                Some(pod) => pod,
                None => Arc::new(self.read(call).await?),
            };
            concerned = Some(Arc::clone(&pod));
            let found = table.row(call, &pod);
            row = &found.name;
            Ok(self.decide(call, &pod, found).await)
        };
        let answer = match timeout(DEADLINE, work).await {
            Ok(Ok(answer) | Err(answer)) => answer,
            Err(_) => self.late(call, concerned.as_deref(), &table),
        };
        self.report(call, concerned.as_deref(), row, &answer, began.elapsed());
        answer
    }

    /// Reads the pod of a call live. The error is the answer where there is no pod.
    async fn read(&self, call: &Call) -> Result<Pod, Answer> {
        let _slot = self.slot(call).await?;
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

    /// Waits for the turn of a call that needs the API. The error is the answer where there is none.
    async fn slot(&self, call: &Call) -> Result<Slot, Answer> {
        self.limiter.slot(&call.user.name, TURN).await.map_err(|none| match none {
            NoSlot::User => Answer::Wait(Reply::busy(call)),
            NoSlot::All => Answer::Unasked(Unasked::Busy),
        })
    }

    /// Answers a call whose time is over. An app that is being asked, perhaps on behalf of other calls,
    /// still holds it up. So a flood of calls does not open the way to its pods.
    fn late(&self, call: &Call, pod: Option<&Pod>, table: &Table) -> Answer {
        let unasked = Answer::Unasked(Unasked::Late);
        if !self.cluster.api_answers() {
            return unasked;
        }
        if let Some(pod) = pod {
            let row = table.row(call, pod);
            let (verdict, records) = self.verdict(call, pod, row);
            match (verdict, records.active) {
                (Verdict::Wait(reply), _) => return Answer::Wait(reply),
                (Verdict::Pass(pass), _) => return Answer::Pass(pass),
                (_, Some(active)) => return Answer::Wait(Reply::waiting(call, row, &active)),
                // The kube-apiserver answers, and a deletion that is not counted could break the budget.
                (Verdict::Count(_), None) => {
                    let words = "its deletion was not counted in time, try again";
                    return Answer::Wait(Reply::blocked(call, row, words));
                }
                (Verdict::Ask { .. }, None) => {}
            }
        }
        if self.limiter.is_crowded(&call.user.name) { Answer::Wait(Reply::busy(call)) } else { unasked }
    }

    /// Decides by the caches alone.
    fn verdict(&self, call: &Call, pod: &Pod, row: &Row) -> (Verdict, Records) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let records = self.cluster.records(&call.namespace, &call.pod, uid);
        let verdict = judge(&Facts {
            call,
            pod,
            registered: self.cluster.is_registered(pod),
            namespace: self.cluster.namespace(&call.namespace),
            active: records.active.as_deref(),
            last: records.last.as_deref(),
            predecessor: records.predecessor.as_deref(),
            row,
            trusted: &self.trusted,
            now: Utc::now(),
        });
        (verdict, records)
    }

    async fn decide(&self, call: &Call, pod: &Pod, row: &Row) -> Answer {
        let (verdict, records) = self.verdict(call, pod, row);
        if let Verdict::Pass(pass) = verdict {
            // Before the first lists a pod can look as if it were not registered.
            let unsure = pass == Pass::Unregistered && !self.cluster.not_synced().is_empty();
            return if unsure { Answer::Unasked(Unasked::Starting) } else { Answer::Pass(pass) };
        }
        if is_forced(call, pod) && self.may_override(call).await {
            return Answer::Pass(Pass::Forced);
        }
        match verdict {
            Verdict::Pass(pass) => Answer::Pass(pass),
            Verdict::Wait(_) if !self.cluster.api_answers() => Answer::Unasked(Unasked::ApiDown),
            Verdict::Wait(reply) => Answer::Wait(reply),
            Verdict::Ask { .. } if call.dry_run => Answer::Wait(Reply::dry_run(call, row)),
            Verdict::Ask { entry, expired_in } => {
                self.ask(call, pod, row, *entry, expired_in.as_deref(), &records).await
            }
            Verdict::Count(entry) => self.count(call, pod, row, *entry, &records).await,
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
        row: &Row,
        entry: Requester,
        expired_in: Option<&str>,
        records: &Records,
    ) -> Answer {
        let slot = match self.slot(call).await {
            Ok(slot) => slot,
            Err(answer) => return answer,
        };
        let target = PodTarget { name: call.pod.clone(), uid: pod.metadata.uid.clone() };
        let error = match self.asker.ask(&call.namespace, target, entry, expired_in).await {
            Ok(evacuation) => return Answer::Wait(Reply::waiting(call, row, &evacuation)),
            Err(error) => error,
        };
        match (&*error, &records.active) {
            (AskError::Gone, _) => {
                drop(slot);
                return self.decide_about_successor(call, pod, row).await;
            }
            // The app is being asked, although this caller's entry has no place.
            (AskError::Rejected(_), Some(active)) => return Answer::Wait(Reply::waiting(call, row, active)),
            _ => {}
        }
        warn!(error = &error as &dyn std::error::Error, "pod {}: its app was not asked", call.target());
        Answer::Unasked(if matches!(*error, AskError::Rejected(_)) {
            Unasked::Rejected
        } else {
            Unasked::ApiDown
        })
    }

    /// Decides again after the pod of the cache turned out to be gone: another may have its name by now.
    async fn decide_about_successor(&self, call: &Call, gone: &Pod, row: &Row) -> Answer {
        match self.read(call).await {
            Ok(pod) if pod.metadata.uid == gone.metadata.uid => Answer::Pass(Pass::Leaving),
            Ok(pod) => Box::pin(self.decide(call, &pod, row)).await,
            Err(answer) => answer,
        }
    }

    /// Counts a deletion. One that a budget holds back becomes an Evacuation, which waits for the budget.
    async fn count(&self, call: &Call, pod: &Pod, row: &Row, entry: Requester, records: &Records) -> Answer {
        let slot = match self.slot(call).await {
            Ok(slot) => slot,
            Err(answer) => return answer,
        };
        let counted = self.ledger.count(call, pod).await;
        drop(slot);
        match counted {
            Counted::Evicted => Answer::Pass(Pass::Counted),
            Counted::Gone => Answer::Pass(Pass::Leaving),
            Counted::Busy => {
                Answer::Wait(Reply::blocked(call, row, "its budget is being written by others, try again"))
            }
            Counted::Impossible(problem) => {
                info!("pod {}: its deletion was not counted: {problem}", call.target());
                Answer::Pass(Pass::Uncounted)
            }
            Counted::Blocked(message) if call.dry_run => Answer::Wait(Reply::blocked(call, row, &message)),
            Counted::Blocked(_) => self.ask(call, pod, row, entry, None, records).await,
        }
    }

    /// Counts the answer, and names on the pod a call that passed against the rule.
    fn report(&self, call: &Call, pod: Option<&Pod>, row: &str, answer: &Answer, time: Duration) {
        let webhook = call.operation.as_str();
        let verdict = match answer {
            Answer::Pass(pass) => pass.as_str(),
            Answer::Unasked(_) => "unasked",
            Answer::Wait(_) => "wait",
        };
        self.metrics.count(webhook, row, verdict, time);
        debug!(user = %call.user.name, row, verdict, ?time, "{webhook} {}", call.target());
        let (user, verb) = (&call.user.name, call.operation.verb());
        let note = match answer {
            Answer::Unasked(reason) => {
                self.metrics.count_unasked(webhook, reason.as_str());
                warn!("pod {}: {user} could {verb} it unasked: {}", call.target(), reason.words());
                Some(("PassedUnasked", format!("{user} could {verb} the pod unasked: {}", reason.words())))
            }
            Answer::Pass(Pass::Forced) => Some((
                "DeletionForced",
                format!("{user} forced the deletion of the pod, which was not asked"),
            )),
            Answer::Pass(Pass::BlockedTooLong) => Some((
                "DeletionPassedBudget",
                format!(
                    "{user} could delete the pod although a budget allows no disruption: it held the deletion back for too long"
                ),
            )),
            Answer::Pass(Pass::Uncounted) => Some((
                "DeletionNotCounted",
                format!("{user} could delete the pod without a count: the eviction API cannot count it"),
            )),
            Answer::Pass(_) | Answer::Wait(_) => None,
        };
        if let Some(((reason, note), pod)) = note.zip(pod).filter(|_| !call.dry_run) {
            self.events.warn(pod, reason, "Admit", note);
        }
    }
}
