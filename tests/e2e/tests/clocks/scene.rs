//! One test's namespace on the shared system, whose clocks the test sets.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use controlplane::{AuditEvent, eventually};
use evacuation_api::Evacuation;
use evacuation_e2e::{FakeClock, Platform, PlatformOptions, PodSpec, Pods, shared_with};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

/// By how much a clock is wrong.
pub(crate) const MINUTE: TimeDelta = TimeDelta::minutes(1);

/// The user that the controller is.
const CONTROLLER: &str = "system:serviceaccount:evacuation-system:evacuation-controller";

/// The clocks of the shared system belong to one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());
static CLOCKS: OnceLock<Clocks> = OnceLock::new();
/// The port of the next test's endpoints: the address of a pod that is gone is another pod's soon.
static PORT: AtomicU16 = AtomicU16::new(8080);

/// The clocks of the processes.
struct Clocks {
    controller: FakeClock,
    api_server: FakeClock,
}

fn options() -> PlatformOptions {
    let clocks = CLOCKS.get().unwrap();
    PlatformOptions {
        controller_env: clocks.controller.environment(),
        apiserver_env: clocks.api_server.environment(),
        ..PlatformOptions::default()
    }
}

/// Waits until the controller was told what time it is at the API server from now on.
async fn told_the_time(platform: &Platform) {
    let now = Timestamp::now();
    let told = eventually(Duration::from_mins(1), "the controller asks", || async {
        let events = platform.control_plane().audit_events().unwrap();
        let mut asked = events.iter().filter(|event| {
            (event.verb(), event.resource(), event.user()) == ("list", "evacuations", CONTROLLER)
        });
        match asked.next_back().and_then(AuditEvent::received) {
            Some(last) if last > now => Ok(()),
            last => Err(format!("{last:?}")),
        }
    });
    told.await.unwrap();
}

/// One test's namespace on the shared system, and all its clocks.
pub(crate) struct Scene {
    pub(crate) platform: &'static Platform,
    pub(crate) pods: Pods,
    pub(crate) port: u16,
    clocks: &'static Clocks,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    /// Both clocks are right, until they are set.
    pub(crate) async fn new(prefix: &str) -> Self {
        let alone = ALONE.lock().await;
        if CLOCKS.get().is_none() {
            let (controller, api_server) = (FakeClock::new().await.unwrap(), FakeClock::new().await.unwrap());
            let _ = CLOCKS.set(Clocks { controller, api_server });
        }
        let platform = shared_with(options).await.unwrap();
        let clocks = CLOCKS.get().unwrap();
        for clock in [&clocks.controller, &clocks.api_server] {
            clock.set(TimeDelta::zero()).unwrap();
        }
        told_the_time(platform).await;
        let pods = platform.namespace(prefix).await.unwrap();
        let port = PORT.fetch_add(1, Ordering::Relaxed);
        Self { platform, pods, port, clocks, _alone: alone }
    }

    /// Sets the controller's clock so far ahead.
    pub(crate) fn set_controller(&self, ahead: TimeDelta) {
        self.clocks.controller.set(ahead).unwrap();
    }

    /// Sets the API server's clock so far ahead. Returns what it shows.
    pub(crate) fn set_api_server(&self, ahead: TimeDelta) -> DateTime<Utc> {
        self.clocks.api_server.set(ahead).unwrap();
        Utc::now() + ahead
    }

    /// The controller is stopped in good order and begins anew. It acts by now.
    pub(crate) async fn restart_controller(&self) {
        let controller = &self.platform.controllers()[0];
        let terms = || controller.log().unwrap().matches("controller::process: acting").count();
        let before = terms();
        controller.restart().await.unwrap();
        let acts = eventually(Duration::from_mins(1), "the controller acts", || async {
            if terms() > before { Ok(()) } else { Err("not yet") }
        });
        acts.await.unwrap();
    }

    /// A pod that runs at once, and is gone at once when it is told to go.
    pub(crate) async fn pod(&self, name: &str, spec: PodSpec) -> Pod {
        let spec = ["running-after", "gone-after"]
            .iter()
            .fold(spec, |spec, name| spec.annotation(&format!("controlplane.test/{name}"), "100ms"));
        self.pods.create(name, &spec).await.unwrap()
    }

    /// Asks a pod to move. `entry` is the requester's but for its name, `spec` the Evacuation's.
    pub(crate) async fn ask(&self, pod: &Pod, entry: &Value, spec: &Value) -> Evacuation {
        let mut wanted = json!({
            "metadata": {"name": pod.name_any()},
            "spec": {"target": {"pod": {"name": pod.name_any()}}, "requesters": [entry]},
        });
        wanted["spec"]["requesters"][0]["name"] = json!("test.evacuation.dev/asks");
        for (field, value) in spec.as_object().unwrap() {
            wanted["spec"][field] = value.clone();
        }
        let wanted = serde_json::from_value(wanted).unwrap();
        self.pods.evacuations().create(&PostParams::default(), &wanted).await.unwrap()
    }
}
