//! Drains in progress on a terminal, redrawn in place.

use std::{io, sync::Arc};

use anyhow::Context;
use evacuation_api::{Evacuation, NodeEvacuation};
use futures::StreamExt;
use kube::{Client, ResourceExt, runtime::watcher::Event};

use super::{
    listed::Listed,
    text::{Manner, details, table},
};
use crate::{
    Exit,
    connection::Outages,
    drain_ref::has_ended,
    drawing::{self, Canvas},
    entry::has_entry,
    moment::Now,
    output::tell,
    screen::{REDRAW, Screen},
    tracked::Tracked,
    watching::{Change, changes, is_final, is_refused},
};

/// The drains and the Evacuations of their pods, as both watches tell them.
pub(super) struct Live {
    /// Names of the drains to show; all when empty.
    names: Vec<String>,
    screen: Screen,
    outages: Arc<Outages>,
    drains: Listed<NodeEvacuation>,
    evacuations: Listed<Evacuation>,
}

impl Live {
    pub(super) fn new(names: Vec<String>, screen: Screen, outages: Arc<Outages>) -> Self {
        outages.show_on_screen();
        Self { names, screen, outages, drains: Listed::new(), evacuations: Listed::new() }
    }

    /// Draws until no drain is in progress.
    ///
    /// # Errors
    ///
    /// The first attempt to watch is forbidden or has no reply, or the terminal cannot be written to.
    pub(super) async fn run(mut self, client: &Client) -> anyhow::Result<Exit> {
        let mut changes = changes(client, &self.names);
        let mut redraw = tokio::time::interval(REDRAW);
        let (mut pods_refused, mut shown) = (false, false);
        loop {
            let change = tokio::select! {
                change = changes.next() => change,
                _ = redraw.tick() => {
                    // Half of the picture would flicker. An outage is shown before anything is known.
                    if !(self.drains.is_known() && (pods_refused || self.evacuations.is_known())) {
                        self.draw_outages(Vec::new())?;
                        continue;
                    }
                    if self.drains.values().all(has_ended) {
                        break;
                    }
                    self.draw()?;
                    shown = true;
                    continue;
                }
            };
            match change {
                None => break,
                Some(Change::Drain(event)) => {
                    if let Event::Delete(drain) = &*event {
                        self.screen.print(&format!("nodeevacuation {} is gone", drain.name_any()))?;
                    }
                    self.drains.apply(*event);
                }
                Some(Change::DrainFailed(error)) if !shown && is_final(&error) => {
                    self.screen.draw(Vec::new())?;
                    return Err(error).context("nodeevacuations cannot be watched");
                }
                Some(Change::PodFailed(error))
                    if !pods_refused && !self.evacuations.is_known() && is_refused(&error) =>
                {
                    pods_refused = true;
                    let warning = "warning: evacuations cannot be watched, so that single pods are not shown";
                    self.screen.print(warning)?;
                }
                // A watch recovers by itself.
                Some(Change::DrainFailed(_) | Change::PodFailed(_)) => {}
                Some(Change::Pod(event)) => self.evacuations.apply(*event),
            }
        }
        self.end()?;
        Ok(Exit::Done)
    }

    /// Replaces the drawing by the last state as text.
    fn end(mut self) -> io::Result<()> {
        self.screen.draw(Vec::new())?;
        let now = Now::of(self.outages.is_led());
        // The drawing had them.
        self.outages.lines().iter().try_for_each(tell)?;
        if !self.names.is_empty() {
            let manner = Manner { bars: true, wide: false };
            return self.drains.values().try_for_each(|drain| {
                let pods = self.pods(drain);
                tell(details(drain, &pods.iter().collect::<Vec<_>>(), manner, now))
            });
        }
        let drains: Vec<_> = self.drains.values().cloned().collect();
        if drains.is_empty() {
            return tell("no drains");
        }
        table(&drains, false, now).iter().try_for_each(tell)
    }

    fn draw(&mut self) -> io::Result<()> {
        let (canvas, now) = (self.screen.canvas(), Now::of(self.outages.is_led()));
        let mut lines = Vec::new();
        if self.names.is_empty() {
            let drains: Vec<_> = self.drains.values().cloned().collect();
            lines.extend(table(&drains, false, now).iter().map(|line| canvas.cut(line)));
        }
        let open: Vec<_> = self.drains.values().filter(|drain| !has_ended(drain)).collect();
        let room = canvas.height.saturating_sub(lines.len());
        let height = room.checked_div(open.len()).unwrap_or(room);
        for drain in open {
            let pods = self.pods(drain);
            let part = Canvas { height, ..canvas };
            lines.extend(drawing::drain(drain, &pods.iter().collect::<Vec<_>>(), &part, now));
        }
        self.draw_outages(lines)
    }

    /// Returns the pods that a drain has asked.
    fn pods(&self, drain: &NodeEvacuation) -> Vec<Tracked> {
        let pods = self.evacuations.values().filter(|evacuation| has_entry(evacuation, drain));
        pods.map(Tracked::of).collect()
    }

    /// Draws below a line for each outage: the rest is the state before it.
    fn draw_outages(&mut self, lines: Vec<String>) -> io::Result<()> {
        let canvas = self.screen.canvas();
        let mut drawn = self.outages.drawn(&canvas);
        drawn.extend(lines);
        self.screen.draw(drawn)
    }
}
