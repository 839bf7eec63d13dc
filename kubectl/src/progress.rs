//! The wait for evacuations, with a live drawing on a terminal and lines elsewhere.

use std::{io, pin::pin, time::Duration};

use evacuation_api::Evacuation;
use evacuation_client::watch as follow;
use futures::StreamExt;
use kube::{Api, runtime::watcher};

use crate::{
    Exit,
    connection::Outages,
    drawing,
    moment::Now,
    output::{tell, warn},
    screen::{Lines, REDRAW, Screen},
    tracked::Tracked,
    tracker::Tracker,
    watching::is_refused,
};

/// The output: a screen, or lines.
struct View<'a> {
    lines: Lines,
    screen: Option<Screen>,
    outages: &'a Outages,
}

impl View<'_> {
    /// Shows that an Evacuation has changed. On a screen only its end is a line.
    fn show(&mut self, tracked: &Tracked) -> io::Result<()> {
        let now = Now::of(self.outages.is_led());
        match (&mut self.screen, self.lines) {
            (Some(screen), _) if tracked.end.is_some() => screen.print(&tracked.line(now)),
            (Some(_), _) => Ok(()),
            (None, Lines::Output) => tell(tracked.line(now)),
            (None, Lines::Errors) => {
                warn(tracked.line(now));
                Ok(())
            }
        }
    }

    fn draw(&mut self, tracker: &Tracker) -> io::Result<()> {
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let pods: Vec<_> = tracker.all().collect();
        let canvas = screen.canvas();
        let mut lines = self.outages.drawn(&canvas);
        lines.extend(drawing::evacuations(&pods, &canvas, Now::of(self.outages.is_led())));
        screen.draw(lines)
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
    outages: &Outages,
) -> anyhow::Result<Exit> {
    let mut view = View { lines, screen: Screen::of(lines), outages };
    if view.screen.is_some() {
        outages.show_on_screen();
    }
    // The first responder can be Active from the creation on: no event would show it.
    for tracked in tracker.all() {
        view.show(tracked)?;
    }
    let watching = watch(api, &mut tracker, &mut view);
    let outcome = match timeout {
        Some(timeout) => tokio::time::timeout(timeout, watching).await.unwrap_or(Ok(())),
        None => watching.await,
    };
    outcome?;
    view.draw(&tracker)?;
    for tracked in tracker.all().filter(|tracked| tracked.end.is_none()) {
        let now = Now::of(outages.is_led());
        eprintln!("not ended: {} (evacuation {})", tracked.line(now), tracked.evacuation);
    }
    Ok(tracker.exit())
}

async fn watch(api: Api<Evacuation>, tracker: &mut Tracker, view: &mut View<'_>) -> anyhow::Result<()> {
    let mut events = pin!(follow(api, watcher::Config::default()));
    let mut listed = Vec::new();
    let mut allowed = false;
    let mut redraw = tokio::time::interval(REDRAW);
    while !tracker.finished() {
        let event = tokio::select! {
            event = events.next() => event,
            _ = redraw.tick(), if view.screen.is_some() => {
                view.draw(tracker)?;
                continue;
            }
        };
        let Some(event) = event else { break };
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
        let exit = wait(api, tracker, Some(Duration::from_mins(1)), Lines::Errors, &Outages::default()).await;
        assert_eq!(exit.unwrap(), Exit::Done);
    }
}
