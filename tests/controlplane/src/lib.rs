//! Starts a real Kubernetes control plane for tests: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler, and kwok in place of kubelets.
//!
//! Everything listens on loopback, on ports that no other control plane on the machine uses. What is
//! started is stopped, and what is written is removed, however the owner ends: by [`ControlPlane::stop`],
//! by `drop`, by a panic, by Ctrl-C or by SIGKILL. The files of a test that panicked are kept, and
//! their folder is printed. Setting `CONTROLPLANE_KEEP` keeps them always.
//!
//! The parts serve on their own too: [`Process`] runs a server under test the same way, [`Etcd`] is a store
//! alone, [`Pki`] issues certificates, [`eventually`] waits for a condition.

mod access;
mod actors;
mod apiserver;
mod audit;
mod binaries;
mod builder;
mod component;
mod control_plane;
mod error;
mod etcd;
mod eventually;
mod folder;
mod go_build;
mod kubectl;
mod namespace;
mod nodes;
mod pki;
mod port;
mod process;
mod reaper;
mod shared;
mod tokens;

pub use audit::AuditEvent;
pub use binaries::{Binaries, Program};
pub use builder::Builder;
pub use component::Component;
pub use control_plane::ControlPlane;
pub use error::{Error, Result};
pub use etcd::{Etcd, EtcdTls};
pub use eventually::{TimedOut, eventually};
pub use folder::Folder;
pub use kubectl::{Output, output_of};
pub use namespace::TemporaryNamespace;
pub use pki::{Identity, IdentityFiles, Pki};
pub use port::free_port;
pub use process::{Process, Signal};
pub use shared::shared;
