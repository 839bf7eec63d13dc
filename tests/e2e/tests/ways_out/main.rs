//! Ways out that texts of the project name. Each test makes the situation, takes the command out of the text
//! that a person reads there, runs it with that person's rights, and sees that the pod moves or the drain
//! ends.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod budgets;
mod clean;
mod counted;
mod dead_nodes;
mod drains;
mod gateway;
mod guide;
mod leaving;
mod person;
mod pods;
mod policy;
mod rejected;
mod replacement;
mod rights;
mod room;
mod teams;
mod unwanted;

use evacuation_e2e::{PlatformOptions, Scene};

/// A namespace on the platform that all tests share. It has the gateway and the built-in responders, because
/// texts name them.
async fn scene(prefix: &str) -> Scene {
    Scene::with(prefix, options).await
}

fn options() -> PlatformOptions {
    let gateway = "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\n";
    PlatformOptions {
        gateway: Some(gateway.to_owned()),
        components: vec!["built-in-responders".to_owned()],
        ..PlatformOptions::default()
    }
}
