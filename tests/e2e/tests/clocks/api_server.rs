//! The API server's clock is set. It is the one that rules.

use std::time::Duration;

use chrono::TimeDelta;
use controlplane::eventually;
use evacuation_e2e::scene::PATIENCE;

use crate::{
    waits::{WAIT, begin, done, nothing_is_done},
    wrong::{MINUTE, Wrong},
};

/// Waits until the check warns that the API server's clock is a minute ahead.
async fn the_check_names_the_clock(scene: &Wrong) {
    let named = eventually(PATIENCE, "the check names the API server's clock", || async {
        let clocks = scene.check(None).await.items.remove("clocks").unwrap();
        let mut parts = clocks.message.split(", ");
        let seconds = parts.find_map(|part| {
            let rest = part.strip_prefix("the API server is ")?;
            rest.strip_suffix(" s ahead of this machine")?.parse::<i64>().ok()
        });
        // The server tells whole seconds, and its reply may take those of the check's limit.
        let is_minute = seconds.is_some_and(|seconds| (50..=60).contains(&seconds));
        if clocks.state == "warning" && is_minute { Ok(()) } else { Err(format!("{clocks:?}")) }
    });
    named.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_api_servers_clock_is_set_forward_what_is_due_by_it_is_done() {
    let scene = Wrong::new("forward").await;
    let waits = begin(&scene).await;
    let set = scene.set_api_server(MINUTE);
    done(&scene, waits, MINUTE).await.in_time(set);
    the_check_names_the_clock(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_api_servers_clock_is_set_back_nothing_is_done_until_it_says_so() {
    let scene = Wrong::new("back").await;
    let waits = begin(&scene).await;
    scene.set_api_server(-MINUTE);
    // By every other clock all of it is due by then.
    tokio::time::sleep(Duration::from_secs(WAIT.unsigned_abs() + 5)).await;
    nothing_is_done(&scene, &waits).await;
    let set = scene.set_api_server(TimeDelta::zero());
    done(&scene, waits, TimeDelta::zero()).await.in_time(set);
}
