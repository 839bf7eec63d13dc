//! Ownership as `metadata.managedFields` records it: `k8s.io/apimachinery/pkg/util/managedfields`.

mod cap;
mod codec;
mod last_applied;
mod manager_name;
mod object;
mod scale;
mod strip_meta;
mod tracker;

pub use codec::validate_managed_fields;
pub use manager_name::{MAX_MANAGER_BYTES, ManagerNameError, manager_from_user_agent, validate_manager};
pub use scale::{ReplicasPaths, object_entries, scale_entries};
pub use tracker::{Applied, Writer, apply, track};
