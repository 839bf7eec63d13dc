//! Entries that leave because the pod's owner no longer wants the deletion.
//!
//! # Flow
//!
//! A workload controller waits up to 1,000 s between two tries, so its entry lives longer than that. After a
//! rollout was undone, or a ReplicaSet scaled up again, nobody tries any more. The entry would then move the
//! pod for nothing. Watches of the owners, and the entries themselves, name the Evacuations to look at. One
//! task reads each owner live and withdraws the entries that nobody wants.
//!
//! # Guarantees
//!
//! Only entries that this project's own user wrote, of rows with `followsOwner`, are withdrawn. An owner
//! counts only once its controller has seen its newest generation. Every replica of the gateway does this;
//! the second withdrawal of an entry changes nothing.

mod owner;
mod revisions;
mod withdrawal;

pub(crate) use self::withdrawal::Withdrawal;
