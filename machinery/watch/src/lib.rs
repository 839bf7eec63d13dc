//! The watch loop of the processes that follow objects of the kube-apiserver.
//!
//! # Flow
//!
//! [`follow`] lists and watches the objects of an API and passes each event to its caller, until it is
//! stopped. A watch that broke is begun again after a pause ([`Pauses`]). [`follow_with_health`] also tells
//! its caller of failures.
//!
//! [`Pages`] reads one list without a watch.
//!
//! [`follow_file`] does the same for a file, such as one of a ConfigMap that is mounted.
//!
//! # Guarantees
//!
//! A list is read in small pages, and each object is cut down to the caller's [`Projection`] as it is
//! decoded: the memory of a watch is that of what is kept, one page of text, and one whole object.
//!
//! While each list fails, the pauses grow to two seconds, and the log has one line for the failure and one
//! for its end. The beginning of a list is no sign of success: kube announces it before it asks the API.

mod backoff;
mod file;
mod follow;
mod pages;
mod pauses;
mod projection;

pub use backoff::backoff;
pub use file::{FILE_INTERVAL, follow_file};
pub use follow::{Health, Watch, follow, follow_with_health};
pub use pages::{PAGE, Pages};
pub use pauses::Pauses;
pub use projection::{Projected, Projection};
