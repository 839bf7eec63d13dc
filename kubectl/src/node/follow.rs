//! The wait for a drain: a watch of its NodeEvacuation, and one of its Evacuations for the pods' answers.

use std::{collections::BTreeSet, pin::pin, time::Duration};

use anyhow::Context;
use evacuation_api::{Evacuation, NodeEvacuation};
use evacuation_client::watch;
use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    runtime::watcher::{self, Event},
};
use tokio::time::Instant;

use super::{
    print_hints,
    report::{Report, end},
};
use crate::{
    Exit,
    plain::plain,
    progress::{Lines, View},
    tracker::Tracker,
    watching::{drains, is_refused},
};

/// Maximum time after the end of a drain in which its last Evacuations end.
const LAST_ENDS: Duration = Duration::from_secs(5);

/// A drain to follow.
pub(super) struct Follow {
    pub(super) client: Client,
    pub(super) drain: NodeEvacuation,
    /// True when this command created the drain: then every pod is shown, not only those that are not gone.
    pub(super) fresh: bool,
    /// Number of pods that are to move, as far as known.
    pub(super) pods: usize,
    /// Names of the nodes that are cordoned already.
    pub(super) cordoned: BTreeSet<String>,
}

/// One event of either watch.
enum Change {
    Drain(Box<Event<NodeEvacuation>>),
    Pod(Box<Event<Evacuation>>),
    DrainFailed(watcher::Error),
    PodFailed(watcher::Error),
}

impl Follow {
    /// Prints what changes until the drain has ended, the timeout is reached, or on Ctrl-C. The drain goes on
    /// after the last two.
    ///
    /// # Errors
    ///
    /// The first attempt to watch the NodeEvacuation is forbidden, or standard output is closed.
    pub(super) async fn run(self, timeout: Option<Duration>) -> anyhow::Result<Exit> {
        let name = self.drain.name_any();
        let mut course = Course::new(&self);
        let late = async {
            match timeout {
                Some(timeout) if timeout != Duration::MAX => tokio::time::sleep(timeout).await,
                _ => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            ended = course.watch(&self.client) => Ok(ended?),
            () = late => Err(("timeout", Exit::TimedOut)),
            Ok(()) = tokio::signal::ctrl_c() => Err(("interrupted", Exit::Interrupted)),
        };
        let Course { tracker, view, .. } = course;
        drop(view);
        match ended {
            Ok((exit, message)) => {
                if exit != Exit::Done {
                    eprintln!("error: {message}");
                }
                if exit != Exit::Errors {
                    eprintln!("the cordon stays; to take it back: kubectl evacuate cancel {name}");
                }
                Ok(exit)
            }
            Err((why, exit)) => {
                for tracked in tracker.all().filter(|tracked| tracked.end.is_none()) {
                    eprintln!("not ended: {} (evacuation {})", tracked.line(), tracked.evacuation);
                }
                eprintln!("{why}: nodeevacuation {name} continues");
                print_hints(&name);
                Ok(exit)
            }
        }
    }
}

/// The state of the wait.
struct Course {
    name: String,
    uid: Option<String>,
    fresh: bool,
    report: Report,
    tracker: Tracker,
    view: View,
    /// The drain as it was last seen.
    drain: NodeEvacuation,
}

impl Course {
    fn new(follow: &Follow) -> Self {
        let drain = &follow.drain;
        Self {
            name: drain.name_any(),
            uid: drain.uid(),
            fresh: follow.fresh,
            report: Report::new(follow.cordoned.clone()),
            tracker: Tracker::default(),
            view: View::new(follow.pods, Lines::Output),
            drain: drain.clone(),
        }
    }

    /// Follows the drain to its end. Returns the exit and its reason.
    async fn watch(&mut self, client: &Client) -> anyhow::Result<(Exit, String)> {
        let mut changes = pin!(changes(client, &self.name));
        let (mut seen, mut allowed, mut pods_allowed) = (false, false, false);
        while let Some(change) = changes.next().await {
            match change {
                Change::Drain(event) => match *event {
                    Event::Init => seen = false,
                    Event::InitApply(drain) => {
                        seen = true;
                        self.take_drain(drain)?;
                    }
                    Event::Apply(drain) => self.take_drain(drain)?,
                    Event::InitDone if seen => allowed = true,
                    Event::InitDone | Event::Delete(_) => return Ok(self.removed()),
                },
                Change::DrainFailed(error) if !allowed && is_refused(&error) => {
                    return Err(error).context("the drain was created, and cannot be watched");
                }
                Change::PodFailed(error) if !pods_allowed && is_refused(&error) => {
                    pods_allowed = true;
                    eprintln!("warning: evacuations cannot be watched, so that single pods are not shown");
                }
                // A watch recovers by itself.
                Change::DrainFailed(_) | Change::PodFailed(_) => {}
                Change::Pod(event) => {
                    pods_allowed = true;
                    self.take_event(*event)?;
                }
            }
            if self.drain.metadata.uid != self.uid {
                return Ok(self.removed());
            }
            if let Some(ended) = self.drain.status.as_ref().and_then(end) {
                self.last_ends(client, &mut changes).await?;
                return Ok(ended);
            }
        }
        Ok(self.removed())
    }

    fn removed(&self) -> (Exit, String) {
        (Exit::Errors, format!("nodeevacuation {} was deleted before its end", self.name))
    }

    fn take_drain(&mut self, drain: NodeEvacuation) -> std::io::Result<()> {
        for line in self.report.lines(&drain) {
            self.view.print(&line)?;
        }
        if let Some(status) = &drain.status {
            let number = |count: i32| usize::try_from(count).unwrap_or_default();
            self.view.count(number(status.pods.gone), number(status.pods.total));
        }
        self.drain = drain;
        Ok(())
    }

    fn take_event(&mut self, event: Event<Evacuation>) -> std::io::Result<()> {
        match event {
            Event::InitApply(evacuation) | Event::Apply(evacuation) => self.take_pod(&evacuation),
            Event::Delete(evacuation) if self.tracker.follows(&evacuation) => {
                let shown = self.tracker.remove(&evacuation).cloned();
                shown.map_or(Ok(()), |tracked| self.view.show(&tracked))
            }
            Event::Init | Event::InitDone | Event::Delete(_) => Ok(()),
        }
    }

    fn take_pod(&mut self, evacuation: &Evacuation) -> std::io::Result<()> {
        if self.tracker.follows(evacuation) {
            let changed = self.tracker.apply(evacuation).cloned();
            return changed.map_or(Ok(()), |tracked| self.view.show(&tracked));
        }
        let ended = evacuation.status.as_ref().is_some_and(evacuation_protocol::is_finished);
        if !has_entry(evacuation, &self.drain) || (ended && !self.fresh) {
            return Ok(());
        }
        let namespace = evacuation.namespace().unwrap_or_default();
        self.view.print(&plain(&format!("pod/{namespace}/{} asked", evacuation.spec.target.pod.name)))?;
        let tracked = self.tracker.follow(evacuation);
        self.view.show(&tracked)
    }

    /// Shows the ends of the last Evacuations, which the watch of the pods can tell later than that of the
    /// drain.
    async fn last_ends(
        &mut self,
        client: &Client,
        changes: &mut (impl Stream<Item = Change> + Unpin),
    ) -> anyhow::Result<()> {
        let api: Api<Evacuation> = Api::all(client.clone());
        if let Ok(all) = api.list(&ListParams::default()).await {
            for evacuation in &all.items {
                self.take_pod(evacuation)?;
            }
        }
        let until = Instant::now() + LAST_ENDS;
        while !self.tracker.finished() {
            match tokio::time::timeout_at(until, changes.next()).await {
                Ok(Some(Change::Pod(event))) => self.take_event(*event)?,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        Ok(())
    }
}

/// Events of both watches.
fn changes(client: &Client, name: &str) -> impl Stream<Item = Change> + use<> {
    let drain = drains(client.clone(), Some(name));
    let drain =
        drain.map(|event| event.map_or_else(Change::DrainFailed, |event| Change::Drain(Box::new(event))));
    let pods = watch(Api::<Evacuation>::all(client.clone()), watcher::Config::default());
    let pods = pods.map(|event| event.map_or_else(Change::PodFailed, |event| Change::Pod(Box::new(event))));
    stream::select(drain, pods.boxed())
}

/// Returns true when the Evacuation holds or held the entry of the drain. Another user can have an entry of
/// the same name.
pub(crate) fn has_entry(evacuation: &Evacuation, drain: &NodeEvacuation) -> bool {
    let owner = drain.status.as_ref().and_then(|status| status.requester.as_ref());
    let (Some(owner), Some(name)) = (owner, drain.entry_name()) else { return false };
    let mut recorded = evacuation.status.iter().flat_map(|status| &status.requesters);
    recorded.any(|requester| requester.owner == owner.user && requester.name == name)
}
