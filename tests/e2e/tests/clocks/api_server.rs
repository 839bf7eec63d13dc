//! The API server's clock is set. It is the one that rules.

use std::time::Duration;

use chrono::TimeDelta;

use crate::{
    waits::{WAIT, begin, done, nothing_is_done},
    wrong::{MINUTE, Wrong},
};

#[tokio::test(flavor = "multi_thread")]
async fn when_the_api_servers_clock_is_set_forward_what_is_due_by_it_is_done() {
    let scene = Wrong::new("forward").await;
    let waits = begin(&scene).await;
    let set = scene.set_api_server(MINUTE);
    done(&scene, waits, MINUTE).await.in_time(set);
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
