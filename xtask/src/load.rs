//! Busy loops beside the tests.

use std::{
    hint,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Busy loops, until this is dropped.
#[derive(Debug)]
pub(crate) struct Load(Arc<AtomicBool>);

impl Load {
    /// Starts this many loops, each of which takes the time of one core.
    pub(crate) fn start(loops: u32) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        for _ in 0..loops {
            let ended = Arc::clone(&ended);
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        Self(ended)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
