//! The controller's clock is wrong, or is set.

use chrono::{DateTime, TimeDelta, Utc};

use crate::{
    waits::{begin, done},
    wrong::{MINUTE, Wrong},
};

/// Since ever.
const ALWAYS: DateTime<Utc> = DateTime::<Utc>::MIN_UTC;

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_whose_clock_is_a_minute_ahead_is_not_early() {
    let scene = Wrong::new("ahead").await;
    scene.set_controller(MINUTE);
    let waits = begin(&scene).await;
    done(&scene, waits, TimeDelta::zero()).await.in_time(ALWAYS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_whose_clock_is_a_minute_behind_is_not_late() {
    let scene = Wrong::new("behind").await;
    scene.set_controller(-MINUTE);
    let waits = begin(&scene).await;
    done(&scene, waits, TimeDelta::zero()).await.in_time(ALWAYS);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_changes_when_the_controllers_clock_is_set_a_minute_forward_or_back() {
    for ahead in [MINUTE, -MINUTE] {
        let scene = Wrong::new("set").await;
        let waits = begin(&scene).await;
        scene.set_controller(ahead);
        done(&scene, waits, TimeDelta::zero()).await.in_time(ALWAYS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_begins_anew_with_a_wrong_clock_keeps_every_time() {
    for ahead in [MINUTE, -MINUTE] {
        let scene = Wrong::new("restart").await;
        let waits = begin(&scene).await;
        scene.set_controller(ahead);
        scene.restart_controller().await;
        let acting = Utc::now();
        done(&scene, waits, TimeDelta::zero()).await.in_time(acting);
    }
}
