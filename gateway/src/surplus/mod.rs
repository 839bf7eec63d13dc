//! Deletions of pods that their owner no longer wants.
//!
//! # Flow
//!
//! A budget protects the pods that an owner wants. After `kubectl scale --replicas=0` it has nothing left to
//! protect, and still a number as `minAvailable` holds the last pod. So a deletion that a budget denies is
//! compared with the owner's wish: [`SurplusReader`] reads the owner and its pods live, and a pure function
//! decides. Only a deletion by the controller of the pod's owner can be surplus.
//!
//! The eviction API comes first: its count is the only one that nobody else can take at the same moment.
//!
//! # Guarantees
//!
//! Nothing is taken from the request. A deletion that a budget allows is counted without these reads. At most
//! four of them are in progress, one for each namespace, and each ends after a fifth of a second. An owner
//! that cannot be read in time has no surplus: its deletions count.
//!
//! # Caveats
//!
//! The disruption controller notices a new scale only with the next change of a pod. A budget in per cent is
//! late until then, so surplus deletions and a drain can overlap for some milliseconds, as they can without
//! the gateway.

mod demand;
mod reader;
mod rule;

pub(crate) use self::reader::SurplusReader;
