//! Go clients that were written for kube-apiserver manage the kinds of this project, as they manage built-in
//! kinds: Helm, Flux, Argo CD, controller-runtime, client-go and kubectl. Each test reads the objects by raw requests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod argocd;
mod client_go;
mod controller_runtime;
mod flux;
mod helm;
mod kubectl;
#[path = "../clients/matrix/mod.rs"]
#[expect(dead_code, reason = "the suite of CI size uses the rest")]
mod matrix;
mod program;
#[path = "../clients/workbench.rs"]
#[expect(dead_code, reason = "the suite of kubectl uses the rest")]
mod workbench;
