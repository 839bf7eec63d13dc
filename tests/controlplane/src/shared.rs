use std::panic;

use tokio::sync::OnceCell;

use crate::{ControlPlane, Result};

static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();

/// The control plane of this process, started by the first call and shared by all tests of one test binary.
///
/// Nothing drops it: it is stopped, and its files are removed, when the process ends. The files stay when
/// any thread of the process panicked: a test that fails by returning an error is not noticed.
///
/// # Errors
///
/// As for [`Builder::start`](crate::Builder::start); the next call tries again.
pub async fn shared() -> Result<&'static ControlPlane> {
    SHARED
        .get_or_try_init(|| async {
            let control_plane = ControlPlane::builder().start().await?;
            keep_after_panics(&control_plane);
            Ok(control_plane)
        })
        .await
}

fn keep_after_panics(control_plane: &ControlPlane) {
    let logs = control_plane.logs();
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        before(info);
        if let Some(control_plane) = SHARED.get() {
            control_plane.keep();
            eprintln!("logs of the control plane: {}", logs.display());
        }
    }));
}
