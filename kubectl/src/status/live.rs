//! Drains in progress on a terminal, redrawn in place.

use std::{collections::BTreeMap, io};

use chrono::Utc;
use evacuation_api::{DrainConditionType, Evacuation, NodeEvacuation};
use futures::StreamExt;
use kube::{Client, ResourceExt, runtime::watcher::Event};

use super::text::{details, table};
use crate::{
    Exit,
    drawing::{self, Canvas},
    entry::has_entry,
    output::say,
    screen::{REDRAW, Screen},
    tracked::Tracked,
    watching::{Change, changes, is_refused},
};

/// The drains and the Evacuations of their pods, as both watches tell them.
pub(super) struct Live {
    /// Name of the only drain to show.
    name: Option<String>,
    screen: Screen,
    drains: BTreeMap<String, NodeEvacuation>,
    evacuations: BTreeMap<String, Evacuation>,
}

impl Live {
    pub(super) fn new(name: Option<String>, screen: Screen) -> Self {
        Self { name, screen, drains: BTreeMap::new(), evacuations: BTreeMap::new() }
    }

    /// Draws until no drain is in progress.
    ///
    /// # Errors
    ///
    /// The first attempt to watch is forbidden, or the terminal cannot be written to.
    pub(super) async fn run(mut self, client: &Client) -> anyhow::Result<Exit> {
        let mut changes = changes(client, self.name.as_deref());
        let mut redraw = tokio::time::interval(REDRAW);
        let (mut known, mut pods_known, mut shown) = (false, false, false);
        loop {
            let change = tokio::select! {
                change = changes.next() => change,
                _ = redraw.tick() => {
                    // Half of the picture would flicker.
                    if known && pods_known {
                        if self.drains.values().all(has_ended) {
                            break;
                        }
                        self.draw()?;
                        shown = true;
                    }
                    continue;
                }
            };
            match change {
                None => break,
                Some(Change::Drain(event)) => match *event {
                    Event::Init => {
                        self.drains.clear();
                        // The list is told again.
                        known = false;
                    }
                    Event::InitApply(drain) | Event::Apply(drain) => {
                        self.drains.insert(drain.name_any(), drain);
                    }
                    Event::InitDone => known = true,
                    Event::Delete(drain) => {
                        let name = drain.name_any();
                        self.screen.print(&format!("nodeevacuation {name} is gone"))?;
                        self.drains.remove(&name);
                    }
                },
                Some(Change::DrainFailed(error)) if !shown && is_refused(&error) => return Err(error.into()),
                Some(Change::PodFailed(error)) if !pods_known && is_refused(&error) => {
                    pods_known = true;
                    let warning = "warning: evacuations cannot be watched, so that single pods are not shown";
                    self.screen.print(warning)?;
                }
                // A watch recovers by itself.
                Some(Change::DrainFailed(_) | Change::PodFailed(_)) => {}
                Some(Change::Pod(event)) => match *event {
                    Event::Init => self.evacuations.clear(),
                    Event::InitApply(evacuation) | Event::Apply(evacuation) => {
                        self.evacuations.insert(evacuation.uid().unwrap_or_default(), evacuation);
                    }
                    Event::InitDone => pods_known = true,
                    Event::Delete(evacuation) => {
                        self.evacuations.remove(&evacuation.uid().unwrap_or_default());
                    }
                },
            }
        }
        self.end()?;
        Ok(Exit::Done)
    }

    /// Replaces the drawing by the last state as text.
    fn end(mut self) -> io::Result<()> {
        self.screen.draw(Vec::new())?;
        if self.name.is_some() {
            return self.drains.values().try_for_each(|drain| say(details(drain, true)));
        }
        if self.drains.is_empty() {
            return say("no drains");
        }
        let drains: Vec<_> = self.drains.into_values().collect();
        table(&drains, Utc::now()).iter().try_for_each(say)
    }

    fn draw(&mut self) -> io::Result<()> {
        let (canvas, now) = (self.screen.canvas(), Utc::now());
        let mut lines = Vec::new();
        if self.name.is_none() {
            let drains: Vec<_> = self.drains.values().cloned().collect();
            lines.extend(table(&drains, now).iter().map(|line| canvas.cut(line)));
        }
        let open: Vec<_> = self.drains.values().filter(|drain| !has_ended(drain)).collect();
        let room = canvas.height.saturating_sub(lines.len());
        let height = room.checked_div(open.len()).unwrap_or(room);
        for drain in open {
            let pods = self.evacuations.values().filter(|evacuation| has_entry(evacuation, drain));
            let pods: Vec<_> = pods.map(Tracked::of).collect();
            let part = Canvas { height, ..canvas };
            lines.extend(drawing::drain(drain, &pods.iter().collect::<Vec<_>>(), &part, now));
        }
        self.screen.draw(lines)
    }
}

fn has_ended(drain: &NodeEvacuation) -> bool {
    drain.status.as_ref().is_some_and(|status| status.is_true(DrainConditionType::Finished))
}
