//! Connections to etcd's members, and the choice between them.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use etcd_client::{Client, KvClient, WatchClient};
use tracing::debug;

use super::{
    error::{Call, Fault, fault, store_error, unavailable},
    options::{EtcdOptions, EtcdOptionsError},
};
use crate::StoreError;

/// The largest answer taken. gRPC's default of 4 MiB is less than one page of large values.
const MAX_MESSAGE_BYTES: usize = 2 * 1024 * 1024 * 1024 - 1;

/// For how long calls go past a connection that failed, where there is another.
const AVOIDANCE: Duration = Duration::from_secs(1);

/// Connections that are opened when first used and again when they broke. Clients of one connection are clones that share
/// it, so that calls do not wait for one another.
pub(super) struct Connections {
    calls: Vec<Connection<KvClient>>,
    watches: Vec<Connection<WatchClient>>,
    turn: AtomicUsize,
    started: Instant,
    timeout: Duration,
}

struct Connection<C> {
    client: C,
    /// Milliseconds since `started` until which it is avoided.
    avoided_until: AtomicU64,
}

impl<C> Connection<C> {
    fn new(client: C) -> Self {
        Self {
            client,
            avoided_until: AtomicU64::new(0),
        }
    }
}

impl Connections {
    pub(super) async fn new(options: &EtcdOptions) -> Result<Self, EtcdOptionsError> {
        if options.endpoints.is_empty() {
            return Err(EtcdOptionsError::NoEndpoint);
        }
        let mut calls = Vec::new();
        let mut watches = Vec::new();
        for endpoint in &options.endpoints {
            watches.push(Connection::new(
                open(endpoint, options)
                    .await?
                    .watch_client()
                    .max_decoding_message_size(MAX_MESSAGE_BYTES),
            ));
        }
        for _ in 0..options.connections_per_endpoint.max(1) {
            for endpoint in &options.endpoints {
                calls.push(Connection::new(
                    open(endpoint, options)
                        .await?
                        .kv_client()
                        .max_decoding_message_size(MAX_MESSAGE_BYTES),
                ));
            }
        }
        Ok(Self {
            calls,
            watches,
            turn: AtomicUsize::new(0),
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

    /// The opening of a watch, on connections of their own, so that a reader that lags does not hold up calls.
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
        connections: &[Connection<C>],
        call: Call<'_>,
        repeat_after: Fault,
        request: impl Fn(C) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let deadline = tokio::time::Instant::now() + self.timeout;
        // One broken connection must not fail a read, so there is a second attempt even if there is but one.
        let attempts = connections.len().max(2);
        let mut attempt = 1;
        loop {
            let Some(connection) = self.choose(connections) else {
                return Err(unavailable(call.action, "there is no connection"));
            };
            let Ok(result) = tokio::time::timeout_at(deadline, request(connection.client.clone())).await
            else {
                self.avoid(connection);
                return Err(unavailable(
                    call.action,
                    format!("no answer within {:?}", self.timeout),
                ));
            };
            let error = match result {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let fault = fault(&error);
            if fault != Fault::Answered {
                self.avoid(connection);
            }
            let repeat = fault == Fault::Refused || fault == repeat_after;
            if !repeat || attempt >= attempts {
                return Err(store_error(call, error));
            }
            debug!(action = call.action, %error, attempt, "an etcd call goes to the next connection");
            attempt += 1;
        }
    }

    /// The next connection in turn that is not avoided, else the next in turn.
    fn choose<'a, C>(&self, connections: &'a [Connection<C>]) -> Option<&'a Connection<C>> {
        let now = self.now();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % connections.len().max(1);
        let (before, after) = connections.split_at_checked(turn)?;
        after
            .iter()
            .chain(before)
            .find(|connection| connection.avoided_until.load(Ordering::Relaxed) <= now)
            .or_else(|| after.first())
    }

    fn avoid<C>(&self, connection: &Connection<C>) {
        let until = self.now() + u64::try_from(AVOIDANCE.as_millis()).unwrap_or(u64::MAX / 2);
        connection.avoided_until.store(until, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX / 2)
    }
}

/// One connection to one member. Nothing is sent before the first call.
async fn open(endpoint: &str, options: &EtcdOptions) -> Result<Client, EtcdOptionsError> {
    Client::connect([endpoint], Some(options.connect_options()))
        .await
        .map_err(|source| EtcdOptionsError::Endpoint {
            endpoint: endpoint.to_owned(),
            source: source.into(),
        })
}
