//! Scenes whose clocks a test sets.

use std::ops::Deref;

use chrono::{DateTime, TimeDelta, Utc};
use controlplane::{AuditEvent, eventually};
use evacuation_api::Evacuation;
use evacuation_e2e::{
    Clocks, PlatformOptions, Pool, Scene,
    scene::{ASKER, CONTROLLER, PATIENCE, entry, wanting},
};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{ResourceExt, api::PostParams};
use serde_json::Value;

/// The error of a wrong clock.
pub(crate) const MINUTE: TimeDelta = TimeDelta::minutes(1);

/// The platforms whose clocks the tests set, each in one test at a time.
static PLATFORMS: Pool = Pool::new(2, || PlatformOptions { fake_clocks: true, ..PlatformOptions::default() });

/// A scene whose clocks a test sets.
pub(crate) struct Wrong(Scene);

impl Deref for Wrong {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.0
    }
}

impl Wrong {
    /// A scene whose clocks are right at first.
    pub(crate) async fn new(prefix: &str) -> Self {
        let wrong = Self(Scene::from_pool(prefix, &PLATFORMS).await);
        wrong.read_the_time().await;
        wrong
    }

    fn clocks(&self) -> &Clocks {
        self.platform().clocks().unwrap()
    }

    /// Waits until the controller has read the API server's time from now on.
    async fn read_the_time(&self) {
        let now = Timestamp::now();
        let read = eventually(PATIENCE, "the controller asks", || async {
            let events = self.control_plane().audit_events().unwrap();
            let mut asked = events.iter().filter(|event| {
                (event.verb(), event.resource(), event.user()) == ("list", "evacuations", CONTROLLER)
            });
            match asked.next_back().and_then(AuditEvent::received) {
                Some(last) if last > now => Ok(()),
                last => Err(format!("{last:?}")),
            }
        });
        read.await.unwrap();
    }

    /// Sets the controller's clock ahead by this much.
    pub(crate) fn set_controller(&self, ahead: TimeDelta) {
        self.clocks().controllers.set(ahead).unwrap();
    }

    /// Sets the API server's clock ahead by this much. Returns the time that it then shows.
    pub(crate) fn set_api_server(&self, ahead: TimeDelta) -> DateTime<Utc> {
        self.clocks().apiservers[0].set(ahead).unwrap();
        Utc::now() + ahead
    }

    /// Restarts the controller, and waits until it acts.
    pub(crate) async fn restart_controller(&self) {
        let controller = &self.platform().controllers()[0];
        let terms = || controller.log().unwrap().matches("controller::process: acting").count();
        let before = terms();
        controller.restart().await.unwrap();
        let acts = eventually(PATIENCE, "the controller acts", || async {
            if terms() > before { Ok(()) } else { Err("not yet") }
        });
        acts.await.unwrap();
    }

    /// Asks a pod to move. `more` holds further fields of the entry, `spec` those of the Evacuation, whose
    /// name is the pod's.
    pub(crate) async fn ask_as_named(&self, pod: &Pod, more: &Value, spec: &Value) -> Evacuation {
        let wanted = wanting(&pod.name_any(), &[entry(ASKER, more.clone())]);
        let mut wanted = serde_json::to_value(wanted).unwrap();
        wanted["metadata"] = serde_json::json!({"name": pod.name_any()});
        for (field, value) in spec.as_object().unwrap() {
            wanted["spec"][field] = value.clone();
        }
        let wanted = serde_json::from_value(wanted).unwrap();
        self.evacuations().create(&PostParams::default(), &wanted).await.unwrap()
    }
}
