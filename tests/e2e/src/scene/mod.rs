//! One test's namespace on a platform, with the steps that scenarios share.
//!
//! A scene fails its test by a panic, as the test itself would, so that the logs are kept. Each method
//! therefore returns the value that the test continues with.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod asking;
mod availability;
mod bystander;
mod check;
mod faults;
mod pods;
mod pool;
mod reading;
mod record;
mod refusal;
mod responding;
mod rights;

use std::{
    fmt::Debug,
    ops::Deref,
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use chrono::TimeDelta;
use controlplane::ControlPlane;
use evacuation_api::Evacuation;
use evacuation_client::EvacuationHandle;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::PostParams, core::NamespaceResourceScope};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

pub use crate::pods::is_ready;
pub use asking::{entry, in_millis, leave, put_entries, until_time, wanting};
pub use availability::Availability;
pub use bystander::Bystander;
pub use check::{CHECK_LIMIT, Item, Report, names_in_state};
pub use pods::{annotation, quick};
pub use pool::{Lent, Pool};
pub use reading::{
    condition, delay_end, end_of, first, names, responder, responder_named, responders, status,
};
pub use record::{CONTROLLER, Posted, post, post_to, received};
pub use refusal::{causes, fields, refused, refused_for, refused_saying};
pub use responding::{Running, answer, respond};
pub use rights::{Drainer, User};

use crate::{Platform, PlatformOptions, Pods, shared, shared_with};

/// Maximum time of any one step on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(2);
/// Maximum lateness of an act on a busy machine. The promise is a second.
pub const LATE: TimeDelta = TimeDelta::seconds(5);
/// Name of the requester entry that [`Scene::ask`] and [`Scene::evacuate`] make.
pub const ASKER: &str = "test.evacuation.dev/asks";

/// The port of the next scene's endpoints.
static PORT: AtomicU16 = AtomicU16::new(8080);

/// One test's namespace on a platform.
#[derive(Debug)]
pub struct Scene {
    // Dropped in this order: the namespace is removed through the platform.
    /// The pods and Evacuations of the namespace.
    pub pods: Pods,
    stage: Stage,
    /// The port at which endpoints of this scene's pods listen.
    ///
    /// No other scene of the process has it, because the address of a removed pod soon belongs to another
    /// pod.
    pub port: u16,
}

/// The platform of a scene.
#[derive(Debug)]
enum Stage {
    Shared(&'static Platform),
    Lent(Lent),
    Own(Box<Platform>),
}

impl Deref for Stage {
    type Target = Platform;

    fn deref(&self) -> &Platform {
        match self {
            Self::Shared(platform) => platform,
            Self::Lent(platform) => platform,
            Self::Own(platform) => platform,
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // The panic hook of the shared platform keeps its files.
        if std::thread::panicking() && !matches!(self.stage, Stage::Shared(_)) {
            self.control_plane().keep();
            eprintln!("logs: {}", self.control_plane().logs().display());
        }
    }
}

impl Scene {
    /// A namespace on the platform that all tests of the binary share.
    pub async fn new(prefix: &str) -> Self {
        Self::on(Stage::Shared(shared().await.unwrap()), prefix).await
    }

    /// The same, where all scenes of the binary give the platform these options.
    pub async fn with(prefix: &str, options: impl FnOnce() -> PlatformOptions) -> Self {
        Self::on(Stage::Shared(shared_with(options).await.unwrap()), prefix).await
    }

    /// A namespace on a platform of the pool, which no other scene uses at the same time.
    pub async fn from_pool(prefix: &str, pool: &'static Pool) -> Self {
        Self::on(Stage::Lent(pool.take().await.unwrap()), prefix).await
    }

    /// A namespace on a platform of its own.
    pub async fn alone(prefix: &str, options: PlatformOptions) -> Self {
        let platform = Platform::start(options).await.unwrap();
        Self::on(Stage::Own(Box::new(platform)), prefix).await
    }

    async fn on(stage: Stage, prefix: &str) -> Self {
        let pods = stage.namespace(prefix).await.unwrap();
        Self { pods, stage, port: PORT.fetch_add(1, Ordering::Relaxed) }
    }

    /// The platform.
    pub fn platform(&self) -> &Platform {
        &self.stage
    }

    /// The control plane below the platform.
    pub fn control_plane(&self) -> &ControlPlane {
        self.stage.control_plane()
    }

    /// The namespace's name.
    pub fn namespace(&self) -> &str {
        self.pods.namespace()
    }

    /// The client of `admin`, who has every right.
    pub fn admin(&self) -> Client {
        self.pods.client().clone()
    }

    /// The client of `admin` that calls the API server at that place itself, past the kube-apiserver.
    pub fn direct(&self, place: usize) -> Client {
        let mut config = self.control_plane().client_config();
        config.cluster_url = self.direct_url(place).parse().unwrap();
        Client::try_from(config).unwrap()
    }

    /// The URL of the API server at that place.
    pub fn direct_url(&self, place: usize) -> String {
        format!("https://127.0.0.1:{}", self.platform().apiserver_ports()[place])
    }

    /// Objects of one kind in the namespace, as `admin`.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.admin(), self.namespace())
    }

    /// The Evacuations, as `admin`.
    pub fn evacuations(&self) -> Api<Evacuation> {
        self.pods.evacuations()
    }

    /// The Evacuations, as the user of that client.
    pub fn evacuations_as(&self, client: &Client) -> Api<Evacuation> {
        Api::namespaced(client.clone(), self.namespace())
    }

    /// Creates an object as `admin`.
    pub async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }
}

/// An object of the scene's namespace that a step can be told by its name.
pub trait Named {
    /// The object's name.
    fn object_name(&self) -> String;
}

impl<T: Named + ?Sized> Named for &T {
    fn object_name(&self) -> String {
        (**self).object_name()
    }
}

impl Named for str {
    fn object_name(&self) -> String {
        self.to_owned()
    }
}

impl Named for String {
    fn object_name(&self) -> String {
        self.clone()
    }
}

impl Named for Evacuation {
    fn object_name(&self) -> String {
        self.name_any()
    }
}

impl Named for EvacuationHandle {
    fn object_name(&self) -> String {
        self.name().to_owned()
    }
}

impl Named for Pod {
    fn object_name(&self) -> String {
        self.name_any()
    }
}
