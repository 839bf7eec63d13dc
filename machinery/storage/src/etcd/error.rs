//! etcd's errors in the words of the contract. etcd has no codes of its own, so its messages decide
//! (`rpctypes/error.go`).

use std::{error::Error, io};

use crate::StoreError;

/// Key or revision of a call, for the errors that name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    /// Such as `commit`.
    pub action: &'static str,
    /// The revision asked for; 0 for none.
    pub revision: i64,
    /// The largest value that is written: its key and size.
    pub largest: Option<(&'a str, usize)>,
}

impl Call<'static> {
    pub(super) const fn new(action: &'static str) -> Self {
        Self { action, revision: 0, largest: None }
    }

    pub(super) const fn at(action: &'static str, revision: i64) -> Self {
        Self { action, revision, largest: None }
    }
}

pub(super) fn store_error(call: Call<'_>, error: etcd_client::Error) -> StoreError {
    let message = match &error {
        etcd_client::Error::GRpcStatus(status) => status.message(),
        _ => "",
    };
    if message.contains("required revision has been compacted") {
        return StoreError::Compacted { requested: call.revision, oldest: 0 };
    }
    if message.contains("required revision is a future revision") {
        return StoreError::Future { requested: call.revision, current: 0 };
    }
    // etcd's own limit, and that of its gRPC server.
    let too_large = ["request is too large", "received message larger than max"];
    match call.largest {
        Some((key, size)) if too_large.iter().any(|limit| message.contains(limit)) => {
            StoreError::TooLarge { key: key.to_owned(), size }
        }
        _ => unavailable(call.action, error),
    }
}

pub(super) fn unavailable(
    action: &'static str,
    source: impl Into<Box<dyn Error + Send + Sync>>,
) -> StoreError {
    StoreError::Unavailable { action, source: source.into() }
}

/// Consequence of a failed call for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing: etcd answered.
    Answered,
    /// The connection broke, or the member cannot serve; the call may have reached etcd.
    Broken,
    /// No connection could be opened: the call did not reach etcd.
    Refused,
}

pub(super) fn fault(error: &etcd_client::Error) -> Fault {
    let etcd_client::Error::GRpcStatus(status) = error else {
        return Fault::Broken;
    };
    let mut source = status.source();
    let mut transport = false;
    while let Some(cause) = source {
        transport = true;
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
            if matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable) {
                return Fault::Refused;
            }
        }
        source = cause.source();
    }
    // A member without a leader, or one that is stopping, answers, but another may serve.
    let message = status.message();
    let unable = ["etcdserver: no leader", "etcdserver: server stopped", "etcdserver: leader changed"];
    if transport || unable.iter().any(|reason| message.contains(reason)) {
        Fault::Broken
    } else {
        Fault::Answered
    }
}
