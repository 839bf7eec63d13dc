//! The wait for evacuations, with a live bar on a terminal and lines elsewhere.

use std::time::Duration;

use evacuation_api::Evacuation;
use evacuation_client::watch as follow;
use futures::{StreamExt, pin_mut};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use kube::{Api, runtime::watcher};

use crate::{
    Exit,
    output::say,
    tracker::{Tracked, Tracker},
    watching::is_refused,
};

/// Interval of the spinners and of the clock of the bar.
const TICK: Duration = Duration::from_millis(200);

/// Destination of lines when there is no terminal for the bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// The progress: a bar with a line for each pod under way. Dropping it clears the screen.
pub(crate) struct View {
    without_terminal: Lines,
    screen: MultiProgress,
    bar: ProgressBar,
    lines: std::collections::HashMap<String, ProgressBar>,
}

impl View {
    pub(crate) fn new(total: usize, without_terminal: Lines) -> Self {
        let screen = MultiProgress::new();
        let bar = screen.add(ProgressBar::new(u64::try_from(total).unwrap_or(u64::MAX)));
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} pods ended, {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self { without_terminal, screen, bar, lines: std::collections::HashMap::new() }
    }

    /// Prints a line above the bar.
    pub(crate) fn print(&self, line: &str) -> std::io::Result<()> {
        if self.bar.is_hidden() {
            match self.without_terminal {
                Lines::Output => say(line)?,
                Lines::Errors => eprintln!("{line}"),
            }
        } else {
            // A screen that cannot be written to must not end the drain.
            let _ = self.screen.println(line);
        }
        Ok(())
    }

    /// Sets the position of the bar, and its length if it grew.
    pub(crate) fn count(&self, ended: usize, total: usize) {
        let total = u64::try_from(total).unwrap_or(u64::MAX);
        if self.bar.length().is_none_or(|length| length < total) {
            self.bar.set_length(total);
        }
        self.bar.set_position(u64::try_from(ended).unwrap_or(u64::MAX));
    }

    /// Shows the state of an Evacuation.
    pub(crate) fn show(&mut self, tracked: &Tracked) -> std::io::Result<()> {
        if self.bar.is_hidden() {
            return self.print(&tracked.line());
        }
        if tracked.end.is_some() {
            if let Some(line) = self.lines.remove(&tracked.evacuation) {
                line.finish_and_clear();
            }
            return self.print(&tracked.line());
        }
        let line = self.lines.entry(tracked.evacuation.clone()).or_insert_with(|| {
            let line = self.screen.add(ProgressBar::new_spinner());
            line.enable_steady_tick(TICK);
            line
        });
        line.set_message(tracked.line());
        Ok(())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        for line in self.lines.values() {
            line.finish_and_clear();
        }
        self.bar.finish_and_clear();
    }
}

/// Waits until all evacuations have ended or the timeout is reached; returns the exit for their ends.
///
/// # Errors
///
/// The first attempt to watch is forbidden.
pub(crate) async fn wait(
    api: Api<Evacuation>,
    mut tracker: Tracker,
    timeout: Option<Duration>,
    lines: Lines,
) -> anyhow::Result<Exit> {
    let mut view = View::new(tracker.len(), lines);
    // The first responder can be Active from the creation on: no event would show it.
    for tracked in tracker.all() {
        view.show(tracked)?;
    }
    let watching = watch(api, &mut tracker, &mut view);
    let outcome = match timeout {
        Some(timeout) => tokio::time::timeout(timeout, watching).await.unwrap_or(Ok(())),
        None => watching.await,
    };
    drop(view);
    outcome?;
    for tracked in tracker.all().filter(|tracked| tracked.end.is_none()) {
        eprintln!("not ended: {} (evacuation {})", tracked.line(), tracked.evacuation);
    }
    Ok(tracker.exit())
}

async fn watch(api: Api<Evacuation>, tracker: &mut Tracker, view: &mut View) -> anyhow::Result<()> {
    let events = follow(api, watcher::Config::default());
    pin_mut!(events);
    let mut listed = Vec::new();
    let mut allowed = false;
    while !tracker.finished() {
        let Some(event) = events.next().await else { break };
        let changed = match event {
            Ok(watcher::Event::Init) => {
                listed.clear();
                None
            }
            Ok(watcher::Event::InitApply(evacuation)) => {
                listed.push(evacuation.metadata.uid.clone().unwrap_or_default());
                tracker.apply(&evacuation)
            }
            Ok(watcher::Event::Apply(evacuation)) => tracker.apply(&evacuation),
            Ok(watcher::Event::Delete(evacuation)) => tracker.remove(&evacuation),
            Ok(watcher::Event::InitDone) => {
                allowed = true;
                for tracked in tracker.lose_all_but(&listed) {
                    view.show(&tracked)?;
                }
                None
            }
            // A later refusal is tried again: an API server that has just started knows neither tokens nor
            // roles.
            Err(error) if !allowed && is_refused(&error) => return Err(error.into()),
            Err(_) => None,
        };
        if let Some(tracked) = changed {
            view.show(tracked)?;
        }
        view.count(tracker.ended(), tracker.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use bytes::Bytes;
    use futures::stream;
    use http::{Request, Response};
    use http_body_util::{Full, StreamBody, combinators::BoxBody};
    use kube::{Client, client::Body};

    use super::*;

    const FOUND: &str = r#"{"metadata":{"resourceVersion":"5"},"items":[{
        "metadata":{"name":"a","namespace":"shop","uid":"1"},"spec":{"target":{"pod":{"name":"db-0"}}}}]}"#;
    const ENDED: &str = concat!(
        r#"{"type":"MODIFIED","object":{"apiVersion":"evacuation.dev/v1alpha1","kind":"Evacuation","#,
        r#""metadata":{"name":"a","namespace":"shop","uid":"1","resourceVersion":"9"},"#,
        r#""spec":{"target":{"pod":{"name":"db-0"}}},"status":{"conditions":[{"type":"Evacuated","status":"True","#,
        r#""reason":"Evicted","message":"gone","lastTransitionTime":"2026-11-20T22:00:00Z"}]}}}"#,
        "\n"
    );

    #[tokio::test(start_paused = true)]
    async fn an_end_is_seen_within_a_minute_of_a_connection_that_died_without_a_word() {
        let next = AtomicUsize::new(0);
        let service = tower::service_fn(move |_: Request<Body>| {
            let body: BoxBody<Bytes, Infallible> = match next.fetch_add(1, Ordering::Relaxed) {
                0 => BoxBody::new(Full::from(FOUND)),
                1 => BoxBody::new(StreamBody::new(stream::pending())),
                _ => BoxBody::new(Full::from(ENDED)),
            };
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let mut tracker = Tracker::default();
        let object = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "1"},
            "spec": {"target": {"pod": {"name": "db-0"}}},
        }));
        tracker.follow(&object.unwrap());
        let api = Api::all(Client::new(service, "shop"));
        let exit = wait(api, tracker, Some(Duration::from_mins(1)), Lines::Errors).await;
        assert_eq!(exit.unwrap(), Exit::Done);
    }
}
