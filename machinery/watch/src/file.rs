//! Files that change while a process runs.

use std::{io, path::Path, time::Duration};

use tokio::time::MissedTickBehavior;

/// Interval between two reads of a followed file. Kubernetes changes the file of a ConfigMap by a symbolic
/// link on the folder, which only reading it detects.
pub const FILE_INTERVAL: Duration = Duration::from_secs(5);

/// Reads a file every 5 s. Passes its content to `changed` when it differs from the one before, at first from
/// `seen`.
///
/// A file that cannot be read is passed on once as the error. Its next content counts as changed. The future
/// never ends.
pub async fn follow_file(path: &Path, mut seen: Vec<u8>, mut changed: impl FnMut(io::Result<&[u8]>)) {
    let mut ticks = tokio::time::interval(FILE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut unreadable = false;
    loop {
        ticks.tick().await;
        match tokio::fs::read(path).await {
            Ok(content) => {
                if std::mem::take(&mut unreadable) || content != seen {
                    changed(Ok(&content));
                    seen = content;
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut unreadable, true) {
                    changed(Err(error));
                }
            }
        }
    }
}
