//! Parts of the installed system: their readiness, and their repair after a test stopped some.

use anyhow::{Context, bail};
use chrono::TimeDelta;
use controlplane::{Process, eventually};
use evacuation_api::Evacuation;
use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
};
use serde_json::json;

use super::{Gateway, NAMESPACE, Platform, START, install::api_services};

/// The registration of the API.
const API_SERVICE: &str = "v1alpha1.evacuation.dev";
/// Lease of the controllers.
const LEASE: &str = "evacuation-controller";
/// Lease of the built-in responders.
const BUILT_IN_LEASE: &str = "evacuation-built-in-responders";

impl Platform {
    /// Waits until the API is available and some controller leads.
    ///
    /// # Errors
    ///
    /// Fails when that takes too long, or a process has ended.
    pub async fn available(&self) -> anyhow::Result<()> {
        let services = api_services(self.client()?);
        eventually(START, "the APIService is available", || async {
            if let Some(ended) = self.apiservers.iter().find(|process| !process.is_running()) {
                bail!("{} ended: {}", ended.name(), ended.log().unwrap_or_default());
            }
            let service = services.get(API_SERVICE).await?;
            let conditions = service.data.pointer("/status/conditions").cloned().unwrap_or_default();
            let available = conditions.as_array().into_iter().flatten().any(|condition| {
                condition.get("type") == Some(&json!("Available"))
                    && condition.get("status") == Some(&json!("True"))
            });
            if !available {
                bail!("conditions {conditions}");
            }
            // A server that was killed a moment ago still counts as available.
            Api::<Evacuation>::all(self.client()?).list_metadata(&ListParams::default().limit(1)).await?;
            Ok(())
        })
        .await?;
        if self.controllers.is_empty() {
            return Ok(());
        }
        eventually(START, "a controller leads", || async {
            if self.holder().await?.is_some() { Ok(()) } else { bail!("nobody holds the lease") }
        })
        .await?;
        Ok(())
    }

    /// Takes the registration of the API away, and waits until the kube-apiserver does not know its paths.
    /// Returns what [`register`](Self::register) takes.
    ///
    /// # Errors
    ///
    /// Fails when that takes too long.
    pub async fn unregister(&self) -> anyhow::Result<DynamicObject> {
        let services = api_services(self.client()?);
        let service = services.get(API_SERVICE).await?;
        services.delete(API_SERVICE, &DeleteParams::default()).await?;
        let evacuations: Api<Evacuation> = Api::all(self.client()?);
        eventually(START, "the kube-apiserver has forgotten the API", || async {
            match evacuations.list_metadata(&ListParams::default().limit(1)).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                other => bail!("{other:?}"),
            }
        })
        .await?;
        Ok(service)
    }

    /// Registers the API again, and waits until it is [`available`](Self::available).
    ///
    /// # Errors
    ///
    /// Fails when that takes too long.
    pub async fn register(&self, mut service: DynamicObject) -> anyhow::Result<()> {
        service.metadata.resource_version = None;
        service.metadata.uid = None;
        api_services(self.client()?).create(&PostParams::default(), &service).await?;
        self.available().await
    }

    /// The identity that the lease names, if any.
    ///
    /// # Errors
    ///
    /// Fails when the lease cannot be read.
    pub async fn holder(&self) -> anyhow::Result<Option<String>> {
        let lease = self.leases()?.get_opt(LEASE).await?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        Ok(holder.filter(|holder| !holder.is_empty()))
    }

    /// The controllers: the one that leads, and the others.
    ///
    /// # Errors
    ///
    /// Fails when the lease cannot be read, or names none of them.
    pub async fn leader(&self) -> anyhow::Result<(&Process, Vec<&Process>)> {
        let holder = self.holder().await?.context("nobody holds the lease")?;
        let (mut leaders, others): (Vec<_>, Vec<_>) =
            self.controllers.iter().partition(|process| leads(process, &holder));
        Ok((leaders.pop().with_context(|| format!("{holder} is no controller of this platform"))?, others))
    }

    /// Deletes the lease, so that the next controller to start leads at once.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be deleted.
    pub async fn free_lease(&self) -> anyhow::Result<()> {
        self.free(LEASE).await
    }

    /// Starts the built-in responders if they do not run. They lead at once.
    ///
    /// # Errors
    ///
    /// Fails when their lease cannot be deleted, or they cannot be started.
    pub async fn start_built_in_responders(&self) -> anyhow::Result<()> {
        let Some(process) = self.built_in_responders.as_ref().filter(|process| !process.is_running()) else {
            return Ok(());
        };
        self.free(BUILT_IN_LEASE).await?;
        process.start()?;
        Ok(())
    }

    async fn free(&self, lease: &str) -> anyhow::Result<()> {
        match self.leases()?.delete(lease, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            deleted => Ok(deleted.map(drop)?),
        }
    }

    /// Starts or wakes every part but the controllers after the first, which it ends. Corrects all clocks.
    /// Waits until the API is available and the first controller leads.
    ///
    /// # Errors
    ///
    /// Fails when a part does not become ready.
    pub async fn mend(&self) -> anyhow::Result<()> {
        for clock in
            self.clocks.iter().flat_map(|clocks| [&clocks.controllers].into_iter().chain(&clocks.apiservers))
        {
            clock.set(TimeDelta::zero())?;
        }
        if let Some(balancer) = &self.balancer {
            balancer.all();
        }
        let control_plane = &self.control_plane;
        let etcds = self.etcd.iter().chain([control_plane.etcd()]);
        let kubernetes =
            [control_plane.apiserver(), control_plane.controller_manager(), control_plane.scheduler()];
        for component in etcds.map(controlplane::Etcd::component).chain(kubernetes) {
            component.process().start()?;
            component.resume()?;
            component.ready().await?;
        }
        for process in &self.apiservers {
            process.start()?;
            process.resume()?;
        }
        self.start_built_in_responders().await?;
        if let Some(process) = &self.built_in_responders {
            process.resume()?;
        }
        for process in self.gateway.iter().flat_map(Gateway::processes) {
            process.start()?;
            process.resume()?;
        }
        let Some((first, others)) = self.controllers.split_first() else {
            return self.available().await;
        };
        for process in others {
            process.kill()?;
        }
        let leading = match self.holder().await? {
            Some(holder) => first.is_running() && leads(first, &holder),
            None => false,
        };
        if !leading {
            first.kill()?;
            self.free_lease().await?;
        }
        first.start()?;
        first.resume()?;
        self.available().await?;
        let since = Timestamp::now();
        eventually(START, "the first controller leads", || async {
            let lease = self.leases()?.get_opt(LEASE).await?;
            let lease = lease.and_then(|lease| lease.spec).unwrap_or_default();
            let ours = lease.holder_identity.as_deref().is_some_and(|holder| leads(first, holder));
            match lease.renew_time {
                Some(renewed) if ours && renewed.0 > since => Ok(()),
                _ => bail!("{lease:?}"),
            }
        })
        .await?;
        Ok(())
    }

    /// Starts every controller, and waits until each is ready.
    ///
    /// # Errors
    ///
    /// Fails when one is not ready in time.
    pub async fn start_controllers(&self) -> anyhow::Result<()> {
        for (process, port) in self.controllers.iter().zip(&self.metrics_ports) {
            process.start()?;
            process.wait_for_http(START, *port, "/readyz").await?;
        }
        Ok(())
    }

    /// The metrics of every controller as text.
    ///
    /// # Errors
    ///
    /// Fails when one does not answer.
    pub async fn controller_metrics(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        for port in &self.metrics_ports {
            let url = format!("http://127.0.0.1:{port}/metrics");
            text += &reqwest::get(url).await?.error_for_status()?.text().await?;
        }
        Ok(text)
    }

    fn leases(&self) -> anyhow::Result<Api<Lease>> {
        Ok(Api::namespaced(self.client()?, NAMESPACE))
    }
}

/// Returns whether an identity is that of a process; a controller's begins with its HOSTNAME.
fn leads(process: &Process, holder: &str) -> bool {
    holder.split_once('_').is_some_and(|(host, _)| host == process.name())
}
