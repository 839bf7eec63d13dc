//! The whole system on a real control plane: what the end-to-end scenarios, the demo and the benchmarks
//! share.
//!
//! [`Platform`] installs what `deploy/overlays/host` holds and runs the API server and the controller as
//! processes; [`App`] is a pod that answers, played by a process with the pod's own token or the pod's own
//! IP.

mod app;
mod endpoint;
mod fake_clock;
mod kubeconfig;
mod old_kubectl;
mod packages;
mod platform;
mod pods;
mod programs;
pub mod scene;
mod shared;
mod webhook;
mod workload;

pub use app::{App, pod_client};
pub use endpoint::{Endpoint, Reply, answering, ok};
pub use fake_clock::FakeClock;
pub use kubeconfig::write_kubeconfig;
pub use old_kubectl::KUBECTL_1_32;
pub use packages::Packages;
pub use platform::{Clocks, Gateway, Platform, PlatformOptions, Storage};
pub use pods::{PodSpec, Pods, is_ready};
pub use programs::{Programs, root};
pub use scene::{Pool, Scene};
pub use shared::{shared, shared_with};
pub use webhook::DenyingWebhook;
pub use workload::workload;
