//! Outages of servers, as the user is told of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use evacuation_protocol::NO_CONTROLLER;
use tokio::{sync::Notify, time::Instant};

use super::failure::Server;
use crate::{drawing::Canvas, output::warn};

/// Maximum number of different warnings on standard error.
const PRINTED: usize = 64;

/// Outages in progress: each is one line on standard error, or a line of the drawing on a screen.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    present: Mutex<BTreeMap<Server, Outage>>,
    warnings: Mutex<Warnings>,
    /// Wakes those who wait for another reply of the evacuation API.
    replied: Notify,
    /// True while a screen shows the lines.
    on_screen: AtomicBool,
}

/// Warnings of the evacuation API.
#[derive(Debug, Default)]
struct Warnings {
    /// Those of the last reply.
    last: Vec<String>,
    /// Those that standard error has, without their numbers.
    printed: BTreeSet<String>,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    line: String,
}

impl Outages {
    /// Leaves the lines to a screen, which asks for them whenever it draws.
    pub(crate) fn show_on_screen(&self) {
        self.on_screen.store(true, Ordering::Relaxed);
    }

    /// Returns the lines of the outages in progress, and the warnings of the last reply of the evacuation
    /// API.
    pub(crate) fn lines(&self) -> Vec<String> {
        let warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let warnings = warnings.last.iter().map(|text| format!("Warning: {text}"));
        let present = self.present();
        let line = |outage: &Outage| format!("{} [{} ago]", outage.line, seconds(outage.since.elapsed()));
        present.values().map(line).chain(warnings).collect()
    }

    /// Returns [`Self::lines`] folded for a drawing.
    pub(crate) fn drawn(&self, canvas: &Canvas) -> Vec<String> {
        self.lines().iter().flat_map(|line| canvas.wrap(line, "")).collect()
    }

    /// Returns false when the last reply of the evacuation API said that no controller works.
    pub(crate) fn is_led(&self) -> bool {
        let warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        !warnings.last.iter().any(|text| text.starts_with(NO_CONTROLLER))
    }

    /// Waits until a reply of the evacuation API has said that no controller works.
    pub(crate) async fn until_leaderless(&self) {
        loop {
            // A reply between the look and the wait counts.
            let replied = self.replied.notified();
            if !self.is_led() {
                return;
            }
            replied.await;
        }
    }

    /// Tells the user of the warnings of a reply. Standard error has each text once.
    pub(super) fn warn(&self, server: Server, texts: Vec<String>) {
        if server != Server::EvacuationApi {
            return;
        }
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.on_screen.load(Ordering::Relaxed) {
            for text in &texts {
                // The age of a lease in it changes from reply to reply.
                let text_without_numbers = text.replace(|character: char| character.is_ascii_digit(), "");
                if warnings.printed.len() < PRINTED && warnings.printed.insert(text_without_numbers) {
                    warn(format_args!("Warning: {text}"));
                }
            }
        }
        warnings.last = texts;
        drop(warnings);
        self.replied.notify_waiters();
    }

    /// Returns true when the user was told of an outage of that server.
    pub(super) fn is_known(&self, server: Server) -> bool {
        self.present().contains_key(&server)
    }

    /// Tells the user of an outage, once.
    pub(super) fn begin(&self, server: Server, line: String) {
        let mut present = self.present();
        if present.contains_key(&server) {
            return;
        }
        if !self.on_screen.load(Ordering::Relaxed) {
            warn(format_args!("warning: {line}"));
        }
        present.insert(server, Outage { since: Instant::now(), line });
    }

    /// Notes that a server has answered. The evacuation API answers through the kube-apiserver.
    pub(super) fn end(&self, server: Server) {
        let mut present = self.present();
        let ended = [Server::KubeApiserver, server];
        for server in ended {
            let Some(outage) = present.remove(&server) else { continue };
            if !self.on_screen.load(Ordering::Relaxed) {
                let name = match server {
                    Server::KubeApiserver => "the kube-apiserver",
                    Server::EvacuationApi => "the evacuation API",
                };
                eprintln!("{name} answers again after {}", seconds(outage.since.elapsed()));
            }
        }
    }

    fn present(&self) -> MutexGuard<'_, BTreeMap<Server, Outage>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seconds(duration: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(duration.as_secs()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::{task::yield_now, time::timeout};

    use super::*;

    /// The clock is paused: a timeout passes at once when nothing wakes a task.
    #[tokio::test(start_paused = true)]
    async fn a_reply_that_says_that_no_controller_works_wakes_who_waits_for_it() {
        let outages = Arc::new(Outages::default());
        let shared = Arc::clone(&outages);
        let mut waiting = tokio::spawn(async move { shared.until_leaderless().await });
        for (server, text) in
            [(Server::KubeApiserver, NO_CONTROLLER), (Server::EvacuationApi, "the drain has no deadline")]
        {
            yield_now().await;
            outages.warn(server, vec![text.to_owned()]);
            timeout(Duration::from_secs(1), &mut waiting).await.unwrap_err();
        }
        outages.warn(Server::EvacuationApi, vec![format!("{NO_CONTROLLER}: the lease is old")]);
        timeout(Duration::from_secs(1), waiting).await.unwrap().unwrap();
        timeout(Duration::from_secs(1), outages.until_leaderless()).await.unwrap();
    }
}
