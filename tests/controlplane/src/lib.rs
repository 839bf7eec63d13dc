//! Starts a real Kubernetes control plane for tests: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler, and kwok in place of kubelets.
//!
//! Everything listens on loopback, on ports that no other control plane on the machine uses. What is
//! started is stopped, and what is written is removed, however the owner ends: by [`ControlPlane::stop`],
//! by `drop`, by a panic, by Ctrl-C or by SIGKILL. The files of a test that panicked are kept, and
//! their folder is printed. Setting `CONTROLPLANE_KEEP` keeps them always.
//!
//! ```no_run
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! let control_plane = controlplane::shared().await?;
//! let namespace = control_plane.namespace("drain").await?;
//! let output = control_plane.kubectl(&["get", "pods", "-n", namespace.name()]).await?;
//! assert!(output.success());
//! # Ok(())
//! # }
//! ```
//!
//! Pods are played, not run: each is ready a second or two after it was scheduled, has an address of its
//! own in 127.0.0.0/8 at which a process of the test may listen, and is gone a second after its deletion.
//! Annotations of a pod change that:
//!
//! | annotation | effect |
//! | --- | --- |
//! | `controlplane.test/running-after: 10s` | it runs that long after it was scheduled |
//! | `controlplane.test/gone-after: 10s` | it is gone that long after its deletion |
//! | `controlplane.test/ready: "false"` | it runs but is not ready, while the annotation says so |
//! | `controlplane.test/phase: Failed` | once running it ends in place, `Failed` or `Succeeded` |
//!
//! The parts serve on their own too: [`Process`] runs a server under test the same way, [`Etcd`] is a store
//! alone, [`Pki`] issues certificates, [`eventually`] waits for a condition.

mod access;
mod actors;
mod apiserver;
mod audit;
mod balancer;
mod binaries;
mod builder;
mod component;
mod control_plane;
mod error;
mod etcd;
mod etcd_api;
mod etcd_backup;
mod eventually;
mod folder;
mod go_build;
mod go_tool;
mod kubectl;
mod namespace;
mod nodes;
mod pki;
mod port;
mod process;
mod shared;
mod signal;
mod tokens;
mod waiting;

pub use audit::AuditEvent;
pub use balancer::Balancer;
pub use binaries::{Binaries, Program};
pub use builder::Builder;
pub use component::Component;
pub use control_plane::ControlPlane;
pub use error::{Error, Result};
pub use etcd::{Etcd, EtcdTls};
pub use eventually::{TimedOut, eventually};
pub use folder::Folder;
pub use go_tool::{BuiltTool, GoTool};
pub use kubectl::{Output, output_of};
pub use namespace::TemporaryNamespace;
pub use nodes::tolerations;
pub use pki::{Identity, IdentityFiles, Pki};
pub use port::free_port;
pub use process::Process;
pub use shared::shared;
pub use signal::Signal;
