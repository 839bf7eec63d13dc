//! The watch that responders, requesters and kubectl share.

mod throttle;

use std::{fmt::Debug, time::Duration};

use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Resource,
    core::NamespaceResourceScope,
    runtime::{
        utils::{Backoff, ResetTimerBackoff},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use tracing::{Dispatch, instrument::WithSubscriber};

use crate::backoff::Retry;
use throttle::throttled;

/// Duration of one watch request, in seconds.
///
/// A connection can die silently, when a node loses its power or a gateway forgets the connection. The watch
/// is renewed a few seconds after this time. With kube's own 290 s an app would not hear of questions for
/// that long, and many responders have less time to answer.
const WATCH_SECONDS: u32 = 30;

/// Time after a failure after which the pauses start from the shortest again.
///
/// An attempt that succeeds and breaks at once does not reset them: a server that sends a list and refuses
/// each watch would be asked ten times a second.
const RESET_AFTER: Duration = Duration::from_secs(10);

/// Events of a list and the watch after it. The stream has no end: it recovers from every failure.
///
/// # Guarantees
///
/// After each failure the stream pauses, from 0.1 s up to 5 s, with jitter; then it lists again. So every
/// recovery shows as [`InitDone`](watcher::Event::InitDone). Two watches start at least a second apart, also
/// if the server ends them without an error.
pub fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    watch_with(api, config, ResetTimerBackoff::new(Retry::default(), RESET_AFTER))
}

fn watch_with<K, B>(
    api: Api<K>,
    config: watcher::Config,
    pauses: B,
) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
    B: Backoff + 'static,
{
    let (api, config) = (throttled(api), config.timeout(WATCH_SECONDS));
    let begin = move || watcher(api.clone(), config.clone()).boxed();
    stream::unfold((begin(), pauses, None), move |(mut events, mut pauses, pause)| {
        let begin = begin.clone();
        async move {
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
                events = begin();
            }
            // kube logs a refused list with all its fields. The caller logs the error that it gets.
            let event = events.next().with_subscriber(Dispatch::none()).await?;
            let pause = if event.is_err() { pauses.next() } else { None };
            Some((event, (events, pauses, pause)))
        }
    })
}

#[cfg(test)]
mod tests;
