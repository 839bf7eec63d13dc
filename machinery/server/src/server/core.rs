//! State that the requests share.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use machinery_auth::{Authenticator, Authorizer};
use machinery_openapi::Documents;
use machinery_tracing::Traces;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::{ServerOptions, write_probe::WriteProbe};
use crate::{
    Admission, Namespaces,
    audit::Auditor,
    http::{Check, Limiters, Rendered},
    metrics::Metrics,
    resource::{Posted, Resource},
};

/// Time for which the readiness of the storage is cached.
const READY_FOR: Duration = Duration::from_secs(1);

/// A resource and its subresources besides `status`.
pub(crate) struct Served {
    pub(crate) resource: Arc<dyn Resource>,
    pub(crate) scale: Option<Arc<dyn Resource>>,
    pub(crate) actions: Vec<Arc<dyn Posted>>,
}

impl Served {
    /// Returns the action of that name.
    pub(crate) fn action(&self, name: &str) -> Option<&Arc<dyn Posted>> {
        self.actions.iter().find(|action| action.name() == name)
    }

    /// Returns true when that subresource exists; the empty name is the resource itself.
    pub(crate) fn has(&self, subresource: &str) -> bool {
        match subresource {
            "" => true,
            "status" if self.resource.has_status() => true,
            "scale" if self.scale.is_some() => true,
            name => self.action(name).is_some(),
        }
    }
}

/// Warning for the callers of all resources, while there is one.
pub(crate) type StandingWarning = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// State that the requests share.
pub(crate) struct Core {
    pub(crate) options: ServerOptions,
    /// Resources by group, version and plural.
    pub(crate) resources: HashMap<(String, String, String), Served>,
    pub(crate) documents: Documents,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) namespaces: Option<Arc<dyn Namespaces>>,
    pub(crate) admission: Option<Arc<dyn Admission>>,
    pub(crate) metrics: Metrics,
    pub(crate) limiters: Limiters,
    /// Events in other forms than the objects themselves.
    pub(crate) rendered: Rendered,
    /// Absent when nothing is traced.
    pub(crate) traces: Option<Traces>,
    /// Absent when nothing is audited.
    pub(crate) auditor: Option<Auditor>,
    pub(crate) write_probe: Option<WriteProbe>,
    pub(crate) standing_warning: Option<StandingWarning>,
    /// Time and result of the last readiness check of the storage.
    pub(crate) storage: Mutex<Option<(Instant, bool)>>,
    /// Canceled when the server is to end. `/readyz` fails from then on.
    pub(crate) stopping: CancellationToken,
    /// Canceled when watches must end.
    pub(crate) shutdown: CancellationToken,
}

impl Core {
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Served> {
        self.resources.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Returns the checks of a probe: `livez` reports that the process works, the others that it can serve.
    pub(crate) async fn checks(&self, probe: &str) -> Vec<Check> {
        let check = |name: &str, healthy: bool| Check { name: name.to_owned(), healthy, note: None };
        let mut checks = vec![check("ping", true)];
        if probe == "livez" {
            return checks;
        }
        let storage = self.storage_ready().await;
        let mut synced = Vec::new();
        for served in self.resources.values() {
            if served.resource.usage().is_some() {
                let name = format!("watch-cache-{}", served.resource.name().plural);
                synced.push(check(&name, served.resource.keeps_up()));
            }
        }
        synced.sort_by(|one, other| one.name.cmp(&other.name));
        checks.push(check("storage", storage));
        checks.extend(synced);
        if probe == "readyz" {
            let namespaces = self.namespaces.as_deref().is_none_or(Namespaces::has_started);
            checks.push(check("watch-namespaces", namespaces));
            if let Some(admission) = &self.admission {
                checks.push(check("admission", admission.has_synced()));
            }
            if let Some(probe) = &self.write_probe {
                checks.push(check("clock", probe.clocks_agree()));
            }
            // One bad object takes no API down: its other objects are served.
            checks.push(Check { note: self.unreadable(), ..check("unreadable-objects", true) });
            checks.push(check("shutdown", !self.stopping.is_cancelled()));
        }
        checks
    }

    /// Returns the kinds of the objects that cannot be read, with their numbers. Their names are for callers
    /// who may list them.
    fn unreadable(&self) -> Option<String> {
        let counts = self.resources.values().filter_map(|served| {
            let count = served.resource.usage().map_or(0, |usage| usage.unreadable);
            (count > 0).then(|| format!("{count} of {} cannot be read", served.resource.name()))
        });
        let counts: BTreeSet<String> = counts.collect();
        (!counts.is_empty()).then(|| counts.into_iter().collect::<Vec<_>>().join(", "))
    }

    /// Returns true when the store of every kind answers. Any client may probe, so the store is asked at most
    /// once a second. Concurrent probes share the result.
    async fn storage_ready(&self) -> bool {
        let mut known = self.storage.lock().await;
        if let Some((when, ready)) = *known
            && when.elapsed() < READY_FOR
        {
            return ready;
        }
        let mut ready = true;
        for served in self.resources.values() {
            if let Err(error) = served.resource.ready().await {
                tracing::warn!(resource = %served.resource.name(), %error, "storage is not ready");
                ready = false;
            }
        }
        *known = Some((Instant::now(), ready));
        ready
    }

    /// Updates the metrics of the storage.
    pub(crate) fn measure_storage(&self) {
        if let Some(probe) = &self.write_probe {
            self.metrics.set_clock_ahead(probe.clock_ahead());
        }
        if let Some(auditor) = &self.auditor {
            auditor.measure();
        }
        for served in self.resources.values() {
            if let Some(usage) = served.resource.usage() {
                let name = served.resource.name();
                self.metrics.set_storage(&name.group, &name.plural, &usage);
            }
        }
    }
}
