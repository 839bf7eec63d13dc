//! Connections to etcd's members, and the choice between them.

use std::time::{Duration, Instant};

use etcd_client::{Client, KvClient, WatchClient};
use tokio::time::timeout;
use tracing::debug;

use super::{
    choice::Choice,
    error::{Call, Fault, fault, store_error, unavailable},
    options::{EtcdOptions, EtcdOptionsError},
};
use crate::StoreError;

/// The largest answer taken. gRPC's default of 4 MiB is less than one page of large values.
const MAX_MESSAGE_BYTES: usize = 2 * 1024 * 1024 * 1024 - 1;

/// Connections that the store opens on first use, and again after they broke. Clients of one connection are
/// clones that share it, so calls do not wait for each other.
pub(super) struct Connections {
    calls: Choice<KvClient>,
    watches: Choice<WatchClient>,
    members: usize,
    started: Instant,
    timeout: Duration,
}

impl Connections {
    pub(super) async fn new(options: &EtcdOptions) -> Result<Self, EtcdOptionsError> {
        if options.endpoints.is_empty() {
            return Err(EtcdOptionsError::NoEndpoint);
        }
        let mut calls = Vec::new();
        let mut watches = Vec::new();
        for endpoint in &options.endpoints {
            let client = open(endpoint, options).await?.watch_client();
            watches.push(client.max_decoding_message_size(MAX_MESSAGE_BYTES));
        }
        for _ in 0..options.connections_per_endpoint.max(1) {
            for endpoint in &options.endpoints {
                let client = open(endpoint, options).await?.kv_client();
                calls.push(client.max_decoding_message_size(MAX_MESSAGE_BYTES));
            }
        }
        Ok(Self {
            calls: Choice::new(calls),
            watches: Choice::new(watches),
            members: options.endpoints.len(),
            started: Instant::now(),
            timeout: options.request_timeout,
        })
    }

    /// A call that may be made twice: after a fault it goes to the next connection.
    pub(super) async fn read<T, F>(
        &self,
        call: Call<'_>,
        request: impl Fn(KvClient) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        self.call(&self.calls, call, Fault::Broken, request).await
    }

    /// A call that is made once: it goes to the next connection only if it cannot have reached etcd.
    pub(super) async fn write<T, F>(
        &self,
        call: Call<'_>,
        request: impl Fn(KvClient) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        self.call(&self.calls, call, Fault::Refused, request).await
    }

    /// Connections on which watches are opened. They are separate, so a slow reader does not delay calls.
    pub(super) async fn watch<T, F>(
        &self,
        call: Call<'_>,
        request: impl Fn(WatchClient) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        self.call(&self.watches, call, Fault::Broken, request).await
    }

    async fn call<C: Clone, T, F>(
        &self,
        connections: &Choice<C>,
        call: Call<'_>,
        repeat_after: Fault,
        request: impl Fn(C) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let deadline = self.started.elapsed() + self.timeout;
        // One broken connection must not fail a read, so there is a second attempt even if there is but one.
        let attempts = connections.len().max(2);
        let mut attempt = 1;
        loop {
            let last = attempt >= attempts;
            let patience = self.patience(deadline, !last && repeat_after == Fault::Broken);
            let Some(connection) = connections.next(self.started.elapsed(), repeat_after == Fault::Refused)
            else {
                return Err(unavailable(call.action, "there is no connection"));
            };
            let (fault, error) = match timeout(patience, request(connection.client.clone())).await {
                Ok(Ok(answer)) => {
                    connection.served();
                    return Ok(answer);
                }
                Ok(Err(error)) => (fault(&error), store_error(call, error)),
                Err(_) => (Fault::Broken, unavailable(call.action, format!("no answer within {patience:?}"))),
            };
            if fault == Fault::Answered {
                connection.served();
            } else {
                connection.failed(self.started.elapsed());
            }
            let repeat = fault == Fault::Refused || fault == repeat_after;
            if !repeat || last || self.started.elapsed() >= deadline {
                return Err(error);
            }
            debug!(%error, attempt, "an etcd call goes to the next connection");
            attempt += 1;
        }
    }

    /// Timeout of an answer. A call that another member can serve leaves time for that member.
    fn patience(&self, deadline: Duration, can_repeat: bool) -> Duration {
        let left = deadline.saturating_sub(self.started.elapsed());
        if can_repeat && self.members > 1 { left.min(self.timeout * 2 / 5) } else { left }
    }
}

/// One connection to one member. Nothing is sent before the first call.
async fn open(endpoint: &str, options: &EtcdOptions) -> Result<Client, EtcdOptionsError> {
    Client::connect([endpoint], Some(options.connect_options()))
        .await
        .map_err(|source| EtcdOptionsError::Endpoint { endpoint: endpoint.to_owned(), source: source.into() })
}
