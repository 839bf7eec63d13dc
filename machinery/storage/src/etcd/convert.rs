//! From the contract's types to etcd's and back, with the key prefix put on and taken off.

use bytes::Bytes;
use etcd_client::{
    Compare, CompareOp, Txn, TxnOp,
    proto::{PbKeyValue, PbRangeResponse, PbResponseHeader, PbTxnOpResponse, PbTxnResponse},
};

use crate::{KeyValue, Operation, Outcome, Precondition, Revisions, Transaction};

/// The store's revision when it answered.
pub(super) fn revision(header: Option<&PbResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

/// The revision that last changed the only key of a range.
pub(super) fn last_change(response: &PbRangeResponse) -> Option<i64> {
    response.kvs.first().map(|found| found.mod_revision)
}

/// The revisions of the keys that a transaction has read.
pub(super) fn revisions(response: &PbTxnResponse) -> Revisions {
    let of = response.responses.iter().map(|operation| match &operation.response {
        Some(PbTxnOpResponse::ResponseRange(range)) => last_change(range),
        _ => None,
    });
    Revisions { revision: revision(response.header.as_ref()), of: of.collect() }
}

/// Prefix of every key in etcd.
#[derive(Clone, Debug)]
pub(super) struct KeyPrefix(String);

impl KeyPrefix {
    pub(super) fn new(prefix: &str) -> Self {
        Self(prefix.to_owned())
    }

    pub(super) fn on(&self, key: &str) -> Vec<u8> {
        let mut full = Vec::with_capacity(self.0.len() + key.len());
        full.extend_from_slice(self.0.as_bytes());
        full.extend_from_slice(key.as_bytes());
        full
    }

    /// The first key of etcd after this one.
    pub(super) fn after(&self, key: &str) -> Vec<u8> {
        let mut full = self.on(key);
        full.push(0);
        full
    }

    /// The end of the keys that start with `prefix`, which is not one of them.
    pub(super) fn end(&self, prefix: &str) -> Vec<u8> {
        let mut end = self.on(prefix);
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                return end;
            }
        }
        // etcd's word for "no end".
        vec![0]
    }

    fn off(&self, mut key: Vec<u8>) -> String {
        key.drain(..self.0.len().min(key.len()));
        // Own keys are UTF-8. Keys that other clients wrote under the prefix stay visible.
        String::from_utf8(key).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    pub(super) fn key_value(&self, found: PbKeyValue) -> KeyValue {
        let PbKeyValue { key, value, create_revision, mod_revision, .. } = found;
        KeyValue { key: self.off(key), value: Bytes::from(value), create_revision, mod_revision }
    }

    pub(super) fn range(&self, response: PbRangeResponse) -> Vec<KeyValue> {
        response.kvs.into_iter().map(|found| self.key_value(found)).collect()
    }

    /// Outcome of a transaction: its revision, or the values of its preconditions' keys.
    pub(super) fn outcome(&self, response: PbTxnResponse) -> Outcome {
        if response.succeeded {
            return Outcome::Committed(revision(response.header.as_ref()));
        }
        let states = response.responses.into_iter().map(|operation| match operation.response {
            Some(PbTxnOpResponse::ResponseRange(range)) => self.range(range).into_iter().next(),
            _ => None,
        });
        Outcome::Failed(states.collect())
    }

    pub(super) fn txn(&self, transaction: Transaction) -> Txn {
        let Transaction { preconditions, operations } = transaction;
        let compares: Vec<Compare> =
            preconditions.iter().flat_map(|precondition| self.compares(precondition)).collect();
        // What the preconditions' keys hold, when one does not hold.
        let reads: Vec<TxnOp> =
            preconditions.iter().map(|precondition| TxnOp::get(self.on(precondition.key()), None)).collect();
        let writes: Vec<TxnOp> = Operation::effective(operations)
            .into_iter()
            .map(|operation| match operation {
                Operation::Put(key, value) => TxnOp::put(self.on(&key), value, None),
                Operation::Delete(key) => TxnOp::delete(self.on(&key), None),
            })
            .collect();
        Txn::new().when(compares).and_then(writes).or_else(reads)
    }

    fn compares(&self, precondition: &Precondition) -> Vec<Compare> {
        let key = self.on(precondition.key());
        match precondition {
            Precondition::Absent(_) => vec![Compare::version(key, CompareOp::Equal, 0)],
            // To etcd a key that does not exist was last changed at revision 0.
            Precondition::Unchanged(_, revision) if *revision <= 0 => {
                vec![
                    Compare::version(key.clone(), CompareOp::Greater, 0),
                    Compare::mod_revision(key, CompareOp::Equal, *revision),
                ]
            }
            Precondition::Unchanged(_, revision) => {
                vec![Compare::mod_revision(key, CompareOp::Equal, *revision)]
            }
        }
    }
}
