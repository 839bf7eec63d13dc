//! The decisions of the gateway in a world: the judge, its facts from the caches, and the reads that confirm
//! what it decides.

use std::sync::LazyLock;

use chrono::TimeDelta;
use evacuation_api::Operation;
use evacuation_protocol::{Outage, OutageCause};
use k8s_openapi::api::core::v1::Pod;

use super::{
    super::{
        oracle::HOLD_SECONDS,
        played::{GATEWAY, node_name},
    },
    GatewayFlaw, GatewayWorld,
};
use crate::{
    call::Call,
    cluster::Records,
    config::Table,
    judge::{Facts, Sight, Trusted, Verdict, is_of_record, judge},
};

/// Maximum number of reads of an Evacuation for one call.
const READS: usize = 4;
/// The built-in rows.
pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(Vec::new()));

impl GatewayWorld {
    /// Judges as the gateway does. A read confirms what passes by the record of an Evacuation, unless the API
    /// is away.
    pub(super) fn judge(&mut self, call: &Call) -> Verdict {
        let reads = self.api_away.is_none() && self.flaw != Some(GatewayFlaw::ReadsNothing);
        let is_away = self.outage().is_some_and(|outage| outage.cause == OutageCause::Api);
        for _ in 0..READS {
            let verdict = self.judge_by_caches(call);
            let confirms = reads && is_of_record(&verdict, is_away);
            let active = self.records(&self.played.uid()).active.filter(|_| confirms);
            if active.is_none_or(|active| self.watch.confirm(&active)) {
                return verdict;
            }
        }
        panic!("the caches are not corrected: {self:?}")
    }

    /// Judges an eviction by the cached pod, and by the live one where the cached one is not enough or is
    /// gone.
    fn judge_by_caches(&self, call: &Call) -> Verdict {
        if call.operation == Operation::Evict {
            let (pod, uid) = &self.cached_pod;
            let verdict = self.judge_pod(call, pod, uid, Sight::Cached { fresh: !self.lags });
            let gone = matches!(verdict, Verdict::Ask { .. }) && *uid != self.played.uid();
            if verdict != Verdict::Look && !gone {
                return verdict;
            }
        }
        let uid = self.played.uid();
        let before = self.records(&uid).predecessor;
        let before = before.and_then(|before| before.status.as_ref()?.node_name.clone());
        let before = (0..2).find(|node| Some(node_name(*node)) == before);
        let left = self.played.is_cordoned(before)
            && self.played.node.is_some()
            && !self.played.is_cordoned(self.played.node);
        let drained_before =
            call.operation == Operation::Evict && (left || self.flaw == Some(GatewayFlaw::BlindToNodes));
        self.judge_pod(call, &self.pod(), &uid, Sight::Live { drained_before })
    }

    fn judge_pod(&self, call: &Call, pod: &Pod, uid: &str, sight: Sight) -> Verdict {
        let records = self.records(uid);
        let trusted = Trusted { users: vec![GATEWAY.to_owned()], namespace: "evacuation-system".to_owned() };
        let hold_seconds = if self.flaw == Some(GatewayFlaw::HoldsNothing) { 0 } else { HOLD_SECONDS };
        let mut row = TABLE.row(call, pod).clone();
        if self.flaw == Some(GatewayFlaw::NoPatience) {
            row.blocked_patience_seconds = 0;
        }
        judge(&Facts {
            call,
            pod,
            sight,
            registered: self.played.registered && self.flaw != Some(GatewayFlaw::BlindToRegistrations),
            namespace: self.namespace,
            active: records.active.as_deref(),
            last: records.last.as_deref(),
            predecessor: records.predecessor.as_deref(),
            unreadable: None,
            group: &[],
            row: &row,
            trusted: &trusted,
            outage: self.outage(),
            longest_hold: TimeDelta::seconds(hold_seconds),
            now: self.played.now,
        })
    }

    /// Returns the outage that the gateway sees.
    fn outage(&self) -> Option<Outage> {
        self.probes.outage(self.played.now, self.flaw != Some(GatewayFlaw::NoLease))
    }

    /// Returns true while nobody can tell the gateway of what the watch has not delivered.
    pub(super) fn is_blind(&self) -> bool {
        self.api_away.is_some() && self.watch.is_behind()
    }

    /// Returns the Evacuations of a pod as the gateway knows them.
    pub(super) fn records(&self, uid: &str) -> Records {
        self.watch.records(uid, self.played.now)
    }
}
