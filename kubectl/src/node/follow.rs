//! The wait for a drain: a watch of its NodeEvacuation, and one of its Evacuations for the pods' answers.
//!
//! On a terminal the drain is drawn, and only what the drawing does not tell is a line. Elsewhere each change
//! is a line.

use std::{collections::BTreeSet, io, sync::Arc, time::Duration};

use anyhow::Context;
use evacuation_api::{Evacuation, NodeEvacuation, NodeEvacuationStatus};
use futures::{Stream, StreamExt};
use kube::{Api, Client, ResourceExt, api::ListParams, runtime::watcher::Event};
use tokio::time::Instant;

use super::{
    cordons::staying,
    hints,
    report::{Report, end},
};
use crate::{
    Exit,
    connection::Outages,
    drawing::{self, Canvas},
    entry::has_entry,
    moment::{Now, WAITS},
    output::{say, tell, warn},
    plain::plain,
    screen::{Lines, REDRAW, Screen},
    summary::summary,
    tracked::Tracked,
    tracker::Tracker,
    watching::{Change, changes, is_refused},
};

/// Maximum time after the end of a drain in which its last Evacuations end.
const LAST_ENDS: Duration = Duration::from_secs(5);

/// A drain to follow.
pub(super) struct Follow {
    pub(super) client: Client,
    pub(super) drain: NodeEvacuation,
    /// True when this command created the drain. Otherwise the pods may be anywhere on their way.
    pub(super) fresh: bool,
    /// Names of the nodes that are cordoned already.
    pub(super) cordoned: BTreeSet<String>,
    /// Outages that the client meets.
    pub(super) outages: Arc<Outages>,
}

impl Follow {
    /// Shows what changes until the drain has ended, the timeout is reached, or on Ctrl-C. The drain goes on
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
        course.draw()?;
        match ended {
            Ok((exit, message)) => {
                // The drawing has the summary in its first line.
                if exit != Exit::Errors && course.screen.is_none() {
                    say(course.summary())?;
                }
                if exit != Exit::Done {
                    warn(format_args!("error: {message}"));
                }
                if exit != Exit::Errors {
                    staying(&self.client, &course.drain).await.iter().for_each(warn);
                }
                Ok(exit)
            }
            Err((why, exit)) => {
                let open = course.tracker.all().filter(|tracked| tracked.end.is_none());
                for tracked in open.filter(|_| course.screen.is_none()) {
                    eprintln!(
                        "not ended: {} (evacuation {})",
                        tracked.line(course.now()),
                        tracked.evacuation
                    );
                }
                let stays = if course.now().led { "continues" } else { WAITS };
                eprintln!("{why}: nodeevacuation {name} {stays}: {}", course.summary());
                hints(&name).iter().for_each(warn);
                Ok(exit)
            }
        }
    }
}

/// The state of the wait.
struct Course {
    name: String,
    uid: Option<String>,
    report: Report,
    tracker: Tracker,
    screen: Option<Screen>,
    outages: Arc<Outages>,
    /// The drain as it was last seen.
    drain: NodeEvacuation,
    /// True while pods are taken in without a line each, because all of them are told together.
    quiet: bool,
}

impl Course {
    fn new(follow: &Follow) -> Self {
        let screen = Screen::of(Lines::Output);
        if screen.is_some() {
            follow.outages.show_on_screen();
        }
        Self {
            name: follow.drain.name_any(),
            uid: follow.drain.uid(),
            report: Report::new(follow.cordoned.clone(), screen.is_some()),
            tracker: Tracker::default(),
            screen,
            outages: follow.outages.clone(),
            drain: follow.drain.clone(),
            quiet: !follow.fresh,
        }
    }

    /// Follows the drain to its end. Returns the exit and its reason.
    async fn watch(&mut self, client: &Client) -> anyhow::Result<(Exit, String)> {
        let mut changes = changes(client, std::slice::from_ref(&self.name));
        let (mut seen, mut allowed, mut pods_allowed) = (false, false, false);
        let mut redraw = tokio::time::interval(REDRAW);
        loop {
            let change = tokio::select! {
                change = changes.next() => change,
                _ = redraw.tick(), if self.screen.is_some() => {
                    self.draw()?;
                    continue;
                }
            };
            let Some(change) = change else { return Ok(self.removed()) };
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
                    self.tell_standing()?;
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
            if let Some(ended) = self.drain.status.as_ref().and_then(|status| end(status, self.now())) {
                self.last_ends(client, &mut changes).await?;
                return Ok(ended);
            }
        }
    }

    fn removed(&self) -> (Exit, String) {
        (Exit::Errors, format!("nodeevacuation {} was deleted before its end", self.name))
    }

    fn take_drain(&mut self, drain: NodeEvacuation) -> io::Result<()> {
        for line in self.report.lines(&drain, self.now()) {
            self.print(&line)?;
        }
        self.drain = drain;
        Ok(())
    }

    fn take_event(&mut self, event: Event<Evacuation>) -> io::Result<()> {
        match event {
            Event::InitApply(evacuation) | Event::Apply(evacuation) => self.take_pod(&evacuation),
            Event::Delete(evacuation) if self.tracker.follows(&evacuation) => {
                let shown = self.tracker.remove(&evacuation).cloned();
                shown.map_or(Ok(()), |tracked| self.show(&tracked))
            }
            Event::InitDone => self.tell_standing(),
            Event::Init | Event::Delete(_) => Ok(()),
        }
    }

    fn take_pod(&mut self, evacuation: &Evacuation) -> io::Result<()> {
        if self.tracker.follows(evacuation) {
            let changed = self.tracker.apply(evacuation).cloned();
            return changed.map_or(Ok(()), |tracked| self.show(&tracked));
        }
        if !has_entry(evacuation, &self.drain) {
            return Ok(());
        }
        let tracked = self.tracker.follow(evacuation);
        // The state of a pod without responders is that it is not asked.
        if self.screen.is_none() && !self.quiet && !tracked.unasked {
            self.print(&plain(&format!("pod/{} asked", tracked.pod)))?;
        }
        self.show(&tracked)
    }

    /// Says where each pod stands, once, for a drain that was in progress before.
    fn tell_standing(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.quiet, false) || self.screen.is_some() {
            return Ok(());
        }
        say(format_args!("so far: {}", self.summary()))?;
        for tracked in self.tracker.all().filter(|tracked| !tracked.is_gone()) {
            tell(tracked.line(self.now()))?;
        }
        Ok(())
    }

    /// Shows that a pod has changed. On a screen only an end that its bar does not tell is a line.
    fn show(&mut self, tracked: &Tracked) -> io::Result<()> {
        let drawn = tracked.end.is_none() || (tracked.is_gone() && tracked.unanswered.is_empty());
        if self.quiet || (self.screen.is_some() && drawn) {
            return Ok(());
        }
        self.print(&tracked.line(self.now()))
    }

    fn print(&mut self, line: &str) -> io::Result<()> {
        match &mut self.screen {
            Some(screen) => screen.print(line),
            None => tell(line),
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let now = self.now();
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let pods: Vec<_> = self.tracker.all().collect();
        let canvas = screen.canvas();
        let mut lines = self.outages.drawn(&canvas);
        let canvas = Canvas { height: canvas.height.saturating_sub(lines.len()), ..canvas };
        lines.extend(drawing::drain(&self.drain, &pods, &canvas, now));
        screen.draw(lines)
    }

    fn now(&self) -> Now {
        Now::of(self.outages.is_led())
    }

    fn summary(&self) -> String {
        let empty = NodeEvacuationStatus::default();
        let status = self.drain.status.as_ref().unwrap_or(&empty);
        summary(status, &self.tracker.all().collect::<Vec<_>>())
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
            self.tell_standing()?;
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
