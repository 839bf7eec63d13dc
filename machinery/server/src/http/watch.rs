//! Watching: a stream of events.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use chrono::Utc;
use futures::{StreamExt, stream};
use machinery_auth::UserInfo;
use prometheus_client::metrics::counter::Counter;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{
    accept::{Form, not_acceptable},
    caller::Caller,
    encoding::Encoding,
    exchange::Exchange,
    fairness::Permit,
    list_options::{self, WatchOptions},
    render::{self, Renderer},
    rendered::Rendered,
    reply::{Events, Reply},
    request_labels::request_labels,
    write_options::WriteOptions,
};
use crate::{
    ApiError, Reason,
    metrics::{GaugeGuard, ResourceLabels},
    registry::{WatchEvent, Watching},
    resource::Resource,
    status::{Target, status},
};

/// Interval of bookmarks, from which a client can resume.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// Size of what is written at once, about.
const CHUNK_BYTES: usize = 64 * 1024;

/// GET of many with `watch=true`.
///
/// As upstream (`k8s.io/apiserver/pkg/storage/cacher`), an error of the revision is a stream with one event
/// of the type ERROR, and not an HTTP status. On the event informers list again; on the status they repeat
/// the request.
pub(crate) async fn watch(
    exchange: &Exchange<'_>,
    user: UserInfo,
    caller: &Caller,
    resource: Arc<dyn Resource>,
) -> Result<Reply, ApiError> {
    let Renderer { form, encoding, .. } = exchange.renderer(resource.as_ref())?;
    let mut options = list_options::watch_options(&exchange.params, resource.as_ref())?;
    options.query.skips_unreadable = exchange.skips_unreadable();
    if encoding == Encoding::Yaml {
        let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        return Err(not_acceptable(streams));
    }
    if exchange.is_head() {
        return Ok(Reply::Watch { encoding, list: false, events: stream::empty().boxed_local() });
    }
    let permit = exchange.core.limiters.watch(caller, resource.is_view())?;
    let context = exchange.enter(user, &WriteOptions::default());
    let watching = match resource.watch(&context, options.query.clone()).await {
        Ok(watching) => watching,
        Err(error) if matches!(error.reason(), Reason::Expired | Reason::Timeout) => {
            let event = render::error_event(encoding, &status(&error, &exchange.target()))?;
            let events = stream::iter([Ok(event)]).boxed_local();
            return Ok(Reply::Watch { encoding, list: false, events });
        }
        Err(error) => return Err(error),
    };
    let name = resource.name();
    let labels = ResourceLabels {
        group: name.group.clone(),
        version: name.version.clone(),
        resource: name.plural.clone(),
    };
    let metrics = &exchange.core.metrics;
    let stream = WatchStream {
        resource,
        form,
        encoding,
        target: exchange.target(),
        watching,
        phase: Phase::Start,
        pending: VecDeque::new(),
        wrote_columns: false,
        rendered: exchange.core.rendered.clone(),
        deadline: Instant::now() + options.time,
        bookmarks: bookmarks(&options),
        announce_initial: options.announce_initial,
        shutdown: exchange.core.shutdown.clone(),
        _permit: permit,
        _guard: metrics.watch(request_labels(exchange)),
        sent: metrics.watch_events(&labels),
    };
    Ok(Reply::Watch { encoding, list: options.list, events: stream.into_events() })
}

fn bookmarks(options: &WatchOptions) -> Option<Interval> {
    options.bookmarks.then(|| {
        let mut interval = interval_at(Instant::now() + BOOKMARK_EVERY, BOOKMARK_EVERY);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing was sent.
    Start,
    /// The objects at the start are being sent; the revision that they show.
    Present(i64),
    /// Changes are sent as they come.
    Follow,
    /// Nothing more is sent.
    End,
}

struct WatchStream {
    resource: Arc<dyn Resource>,
    form: Form,
    encoding: Encoding,
    target: Target,
    watching: Box<dyn Watching>,
    phase: Phase,
    /// Events at the start that are not sent yet.
    pending: VecDeque<WatchEvent>,
    wrote_columns: bool,
    rendered: Rendered,
    deadline: Instant,
    /// Absent if the caller does not accept bookmarks.
    bookmarks: Option<Interval>,
    announce_initial: bool,
    shutdown: CancellationToken,
    _permit: Permit,
    _guard: GaugeGuard,
    sent: Counter,
}

/// Cause for which the stream woke up.
enum Wake {
    Events(Vec<WatchEvent>),
    Bookmark,
    /// The time is over, or the server stops.
    Finish,
    /// The cache ended the watch: the client resumes from its last event.
    Lost,
}

impl WatchStream {
    fn into_events(self) -> Events {
        stream::unfold(self, async |mut stream| {
            let chunk = match stream.chunk().await {
                Ok(chunk) => chunk?,
                Err(error) => stream.fail(&error)?,
            };
            Some((Ok(chunk), stream))
        })
        .boxed_local()
    }

    /// The next bytes; `None` at the end.
    async fn chunk(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            match self.phase {
                Phase::Start => match self.watching.present()? {
                    None => self.phase = Phase::Follow,
                    Some((events, revision)) => {
                        self.pending = events.into();
                        self.phase = Phase::Present(revision);
                    }
                },
                Phase::Present(revision) => {
                    let mut lines = BytesMut::new();
                    while lines.len() < CHUNK_BYTES
                        && let Some(event) = self.pending.pop_front()
                    {
                        self.line(&event, &mut lines)?;
                    }
                    if self.pending.is_empty() {
                        self.phase = Phase::Follow;
                        if self.announce_initial {
                            self.renderer().bookmark(revision, true, &mut lines)?;
                        }
                    }
                    if !lines.is_empty() {
                        return Ok(Some(lines.freeze()));
                    }
                }
                Phase::Follow => match self.wake().await? {
                    Wake::Events(events) => return Ok(Some(self.lines(&events)?.freeze())),
                    Wake::Bookmark => return Ok(Some(self.bookmarked()?)),
                    Wake::Finish => {
                        self.phase = Phase::End;
                        // The client resumes from here, however long ago its last event was.
                        let last = self.bookmarked()?;
                        return Ok((!last.is_empty()).then_some(last));
                    }
                    Wake::Lost => return Ok(None),
                },
                Phase::End => return Ok(None),
            }
        }
    }

    async fn wake(&mut self) -> Result<Wake, ApiError> {
        let bookmark = async {
            match &mut self.bookmarks {
                Some(interval) => interval.tick().await,
                None => std::future::pending().await,
            }
        };
        Ok(tokio::select! {
            biased;
            () = self.shutdown.cancelled() => Wake::Finish,
            () = sleep_until(self.deadline) => Wake::Finish,
            events = self.watching.next() => events?.map_or(Wake::Lost, Wake::Events),
            _ = bookmark => Wake::Bookmark,
        })
    }

    /// Returns the waiting events, and a bookmark if the caller accepts bookmarks.
    fn bookmarked(&mut self) -> Result<Bytes, ApiError> {
        let (events, revision) = self.watching.drain()?;
        let mut lines = self.lines(&events)?;
        if let (Some(revision), true) = (revision, self.bookmarks.is_some()) {
            self.renderer().bookmark(revision, false, &mut lines)?;
        }
        Ok(lines.freeze())
    }

    fn lines(&mut self, events: &[WatchEvent]) -> Result<BytesMut, ApiError> {
        let mut lines = BytesMut::new();
        for event in events {
            self.line(event, &mut lines)?;
        }
        Ok(lines)
    }

    fn line(&mut self, event: &WatchEvent, lines: &mut BytesMut) -> Result<(), ApiError> {
        let first = !std::mem::replace(&mut self.wrote_columns, true);
        self.rendered.event(&self.renderer(), event, first, lines)?;
        self.sent.inc();
        Ok(())
    }

    fn renderer(&self) -> Renderer<'_> {
        let now = Utc::now();
        Renderer { resource: self.resource.as_ref(), form: self.form, encoding: self.encoding, now }
    }

    /// Sends the error to the client, as the last event.
    fn fail(&mut self, error: &ApiError) -> Option<Bytes> {
        self.phase = Phase::End;
        let resource = self.target.qualified_resource();
        if error.reason() == Reason::Expired {
            tracing::debug!(resource, %error, "watch ended");
        } else {
            tracing::error!(resource, %error, "watch failed");
        }
        render::error_event(self.encoding, &status(error, &self.target)).ok()
    }
}
