use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{ControlPlane, Error, Result};

/// Time limit of the clean-up when the guard is dropped. The API server may have ended by then.
const CLEAN_UP: Duration = Duration::from_secs(10);

/// A namespace of one test. It is deleted when this value is dropped, without waiting for the end of its
/// objects.
///
/// A panic writes its state first, into the folder `NAMESPACE` of the control plane's logs:
/// pods, events and budgets, and the nodes; other kinds by [`TemporaryNamespace::also_dump`].
#[derive(Debug)]
pub struct TemporaryNamespace {
    name: String,
    config: Config,
    dump: PathBuf,
    paths: Vec<String>,
}

impl TemporaryNamespace {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Dumps further objects of this namespace after a panic: the path of a resource in the API,
    /// `apis/GROUP/VERSION`, and its plural.
    pub fn also_dump(&mut self, group_version_path: &str, plural: &str) {
        self.paths.push(format!("/{group_version_path}/namespaces/{}/{plural}", self.name));
    }

    /// Writes its state into `folder`, a file for each kind.
    ///
    /// # Errors
    ///
    /// Fails when the API server does not answer or a file cannot be written. What could be had is written.
    pub async fn dump(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
        let client =
            Client::try_from(self.config.clone()).map_err(Error::request("reach", "the API server"))?;
        let results = [
            write_list::<Pod>(folder, "pods", Api::namespaced(client.clone(), &self.name)).await,
            write_list::<Event>(folder, "events", Api::namespaced(client.clone(), &self.name)).await,
            write_list::<PodDisruptionBudget>(folder, "budgets", Api::namespaced(client.clone(), &self.name))
                .await,
            write_list::<Node>(folder, "nodes", Api::all(client.clone())).await,
        ];
        for path in &self.paths {
            let plural = path.rsplit('/').next().unwrap_or(path);
            let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError);
            let answer = match request {
                Ok(request) => client.request::<serde_json::Value>(request).await,
                Err(error) => Err(error),
            };
            write_yaml(folder, plural, &answer.map_err(Error::request("list", plural))?)?;
        }
        results.into_iter().collect()
    }

    async fn clean_up(&self, failed: bool) {
        if failed {
            match self.dump(&self.dump).await {
                Ok(()) => eprintln!("state of namespace {}: {}", self.name, self.dump.display()),
                Err(error) => eprintln!("state of namespace {} is not complete: {error}", self.name),
            }
        }
        if let Ok(client) = Client::try_from(self.config.clone()) {
            let namespaces: Api<Namespace> = Api::all(client);
            // It goes with the control plane at the latest.
            namespaces.delete(&self.name, &DeleteParams::default()).await.ok();
        }
    }
}

async fn write_list<K>(folder: &Path, plural: &str, api: Api<K>) -> Result<()>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let list = api.list(&ListParams::default()).await.map_err(Error::request("list", plural))?;
    write_yaml(folder, plural, &list.items)
}

fn write_yaml(folder: &Path, plural: &str, value: &impl Serialize) -> Result<()> {
    let path = folder.join(format!("{plural}.yaml"));
    let text = serde_saphyr::to_string(value)
        .map_err(|error| Error::file("write", &path)(std::io::Error::other(error)))?;
    fs::write(&path, text).map_err(Error::file("write", &path))
}

impl Drop for TemporaryNamespace {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        // A runtime may not be entered from within a runtime, so this one gets a thread of its own.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
                    runtime.block_on(async { timeout(CLEAN_UP, self.clean_up(failed)).await.ok() });
                }
            });
        });
    }
}

impl ControlPlane {
    /// Makes a namespace with a generated name that begins with `prefix`, in which pods can be created at
    /// once.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be created.
    pub async fn namespace(&self, prefix: &str) -> Result<TemporaryNamespace> {
        let namespaces: Api<Namespace> = Api::all(self.client()?);
        let namespace = Namespace {
            metadata: ObjectMeta { generate_name: Some(format!("{prefix}-")), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        let created = namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .map_err(Error::request("create", format!("namespace {prefix}-")))?;
        let name = created.metadata.name.unwrap_or_default();
        let namespace = TemporaryNamespace {
            dump: self.logs().join(&name),
            config: self.client_config(),
            paths: Vec::new(),
            name,
        };
        self.service_account_exists(&namespace.name, "default").await?;
        Ok(namespace)
    }
}
