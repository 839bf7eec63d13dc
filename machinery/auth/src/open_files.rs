//! The number of files that a process can open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Lets the process open as many files as its hard limit allows, its connections among them.
///
/// Systems start programs with a soft limit of 1,024 for the sake of old ones, which they may raise, as the
/// runtime of Go does by itself. With it a thousand silent clients would keep out all others.
pub fn raise_open_files() {
    let limits = getrlimit(Resource::Nofile);
    if limits.current == limits.maximum {
        return;
    }
    let raised = Rlimit { current: limits.maximum, ..limits };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!(%error, soft = limits.current, hard = limits.maximum, "the limit of open files stays");
    }
}
