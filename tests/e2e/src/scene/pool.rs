//! Platforms that one scene at a time disturbs.

use std::{
    ops::Deref,
    sync::{Mutex, PoisonError},
};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{Platform, PlatformOptions};

/// A bounded set of platforms, each lent to one scene at a time. A platform is started when none is free.
///
/// A scene may stop and freeze any part of its platform, because [`Platform::mend`] repairs it for the next
/// scene.
#[derive(Debug)]
pub struct Pool {
    places: Semaphore,
    free: Mutex<Vec<Box<Platform>>>,
    options: fn() -> PlatformOptions,
}

/// A platform of a pool, which returns there when this is dropped.
///
/// After a panic the platform is dropped instead, and its files are kept.
#[derive(Debug)]
pub struct Lent {
    platform: Option<Box<Platform>>,
    pool: &'static Pool,
    _place: SemaphorePermit<'static>,
}

impl Pool {
    /// A pool of at most that many platforms with these options.
    pub const fn new(size: usize, options: fn() -> PlatformOptions) -> Self {
        Self { places: Semaphore::const_new(size), free: Mutex::new(Vec::new()), options }
    }

    /// Waits for a place, and lends a platform on which only the first controller runs and leads.
    ///
    /// # Errors
    ///
    /// As for [`Platform::start`].
    pub async fn take(&'static self) -> anyhow::Result<Lent> {
        let place = self.places.acquire().await?;
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let platform = match free {
            Some(platform) => platform,
            None => Box::new(Platform::start((self.options)()).await?),
        };
        platform.mend().await?;
        Ok(Lent { platform: Some(platform), pool: self, _place: place })
    }
}

impl Deref for Lent {
    type Target = Platform;

    fn deref(&self) -> &Platform {
        self.platform.as_ref().expect("the platform leaves when this is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(platform) = self.platform.take() else {
            return;
        };
        if std::thread::panicking() {
            platform.control_plane().keep();
        } else {
            self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(platform);
        }
    }
}
