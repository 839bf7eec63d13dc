//! One installed system for all scenarios of a test binary.

use tokio::sync::OnceCell;

use crate::{Platform, PlatformOptions};

static SHARED: OnceCell<Platform> = OnceCell::const_new();

/// The system of this process, started by the first call. It is stopped, and its files are removed, when the
/// process ends; the files stay when a test panicked.
///
/// # Errors
///
/// As for [`Platform::start`]; the next call tries again.
pub async fn shared() -> anyhow::Result<&'static Platform> {
    shared_with(PlatformOptions::default).await
}

/// The same with options of its own: those of the first call.
///
/// # Errors
///
/// As for [`Platform::start`]; the next call tries again.
pub async fn shared_with(options: fn() -> PlatformOptions) -> anyhow::Result<&'static Platform> {
    let start = || {
        Box::pin(async move {
            let platform = Platform::start(options()).await?;
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                before(info);
                if let Some(platform) = SHARED.get() {
                    platform.control_plane().keep();
                    eprintln!("logs: {}", platform.control_plane().logs().display());
                }
            }));
            Ok(platform)
        })
    };
    SHARED.get_or_try_init(start).await
}
