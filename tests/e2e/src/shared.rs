//! One installed system for all scenarios of a test binary.

use std::any::type_name;

use anyhow::ensure;
use tokio::sync::OnceCell;

use crate::{Platform, PlatformOptions};

static SHARED: OnceCell<Shared> = OnceCell::const_new();

/// The system of this process, and the name of the function that gave its options.
struct Shared {
    platform: Platform,
    options: &'static str,
}

/// The system of this process, started by the first call. It is stopped, and its files are removed, when the
/// process ends; the files stay when a test panicked.
///
/// # Errors
///
/// As for [`shared_with`].
pub async fn shared() -> anyhow::Result<&'static Platform> {
    shared_with(PlatformOptions::default).await
}

/// The same with options of its own, which are those of every call in this process.
///
/// # Errors
///
/// As for [`Platform::start`]; the next call tries again. If the system was started with the options of
/// another function: which test comes first is chance, so a test would have them in some runs only.
pub async fn shared_with<F>(options: F) -> anyhow::Result<&'static Platform>
where
    F: FnOnce() -> PlatformOptions,
{
    let start = || {
        Box::pin(async move {
            let platform = Platform::start(options()).await?;
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                before(info);
                if let Some(Shared { platform, .. }) = SHARED.get() {
                    platform.control_plane().keep();
                    eprintln!("logs: {}", platform.control_plane().logs().display());
                }
            }));
            anyhow::Ok(Shared { platform, options: type_name::<F>() })
        })
    };
    let shared = SHARED.get_or_try_init(start).await?;
    ensure!(
        shared.options == type_name::<F>(),
        "all tests of a program share one platform: it was started with {}, and this one asks for {}",
        shared.options,
        type_name::<F>(),
    );
    Ok(&shared.platform)
}
