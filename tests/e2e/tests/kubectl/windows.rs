//! The flags of the plugins that make a window.

use serde_json::json;

use crate::{
    desk::{Desk, assert_has},
    drain::{cordoned, evacuate, own_node},
};

/// The flags of a window that opens once in four years.
const FAR: [&str; 2] = ["--window=0 0 29 2 *", "--window-duration=2h"];

#[tokio::test(flavor = "multi_thread")]
async fn the_flags_become_the_window_of_the_entry() {
    let desk = Desk::new("window").await;
    desk.silent_pod("db-0").await;
    let mut arguments = vec!["create", "evacuation", "db-0", "--time-zone=Europe/Berlin"];
    arguments.extend(FAR);
    desk.kubectl(&arguments).await;
    let evacuation = desk.evacuation_of("db-0").await;
    let entry = serde_json::to_value(&evacuation.spec.requesters[0]).unwrap();
    assert_eq!(
        entry["window"],
        json!({"schedule": "0 0 29 2 *", "durationSeconds": 7200, "timeZone": "Europe/Berlin"})
    );
    let wide = desk.kubectl(&["get", "evac", "-o", "wide"]).await;
    assert_has(&wide, &["UNTIL", "Scheduled", "-02-28T23:00:00Z"]);
    let mut early = vec!["create", "evacuation", "db-0", "--deadline=1h"];
    early.extend(FAR);
    let output = desk.run(&early).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_has(&output.stderr, &["Warning: requester kubectl.evacuation.dev/admin", "Evict"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_its_window_and_says_until_when() {
    let desk = Desk::new("windowed").await;
    let node = own_node(&desk).await;
    let spec = evacuation_e2e::PodSpec::default().on(&node);
    desk.pods.create("web-0", &spec).await.unwrap();
    let mut arguments = vec!["--force", "--timeout=10s"];
    arguments.extend(FAR);
    let output = evacuate(&desk, &node, &arguments).await;
    assert_eq!(output.code, Some(3), "{output:?}");
    assert_has(&output.stdout, &["waits for its window, which opens at ", "-02-29T00:00:00Z"]);
    assert!(!cordoned(&desk, &node).await, "nothing happens before the window opens");
    desk.cancel(&node).await;
    let open = ["--force", "--timeout=60s", "--window=* * * * *", "--window-duration=1h"];
    let output = evacuate(&desk, &node, &open).await;
    assert_eq!(output.code, Some(0), "{output:?}");
}
