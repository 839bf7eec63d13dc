//! A client of the kube-apiserver that sends each request at once.
//!
//! Since kube 5 sets no `TCP_NODELAY`, the first request on a new connection waits for the acknowledgement of
//! the TLS handshake, which Linux delays by 40 ms. A watch occupies a connection, so that an app that watches
//! opens one for its answer. [`client`] builds kube's own stack of layers on a connector with `TCP_NODELAY`.
//!
//! [`lean_client`] also drops `metadata.managedFields` from what the kube-apiserver sends: whoever may change
//! an object writes there what a typed decoder refuses.
//!
//! [`Shares`] bounds the calls that are in progress, with a share for each flow.
//!
//! [`probe`] reads the times that an aggregated API server of this workspace tells with each reply, and
//! [`ServerClock`] goes by them.

mod clock;
mod config;
mod error;
mod managed_fields;
mod probe;
mod shares;
mod stack;

pub use clock::ServerClock;
pub use config::{config, skip_unreadable, skips_unreadable};
pub use error::ConnectError;
pub use managed_fields::without_managed_fields;
pub use probe::{ProbeReply, probe};
pub use shares::{NoSlot, Shares, Slot};
pub use stack::{client, lean_client};
