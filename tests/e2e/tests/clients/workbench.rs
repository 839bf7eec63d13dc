//! A scene with a client's files, and one configuration of each kind.

use std::{ops::Deref, path::Path, process::Command};

use controlplane::{Output, eventually, output_of};
use evacuation_e2e::{PodSpec, Scene, scene::PATIENCE};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Name of the requester entry in the configuration of the Evacuation.
pub(crate) const ENTRY: &str = "test.evacuation.dev/clients";
/// Name of the pod that the Evacuation asks to move.
const POD: &str = "db-0";

/// An object as a user keeps it in a file.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    /// Plural of the kind.
    pub(crate) plural: &'static str,
    pub(crate) object: Value,
    /// Pointer of a field that the configuration sets, and that a user may change and remove.
    pub(crate) field: &'static str,
    /// The same field, as the text of a conflict has it.
    pub(crate) path: String,
    /// Another value of this field.
    pub(crate) other: Value,
    /// Value of this field when no configuration sets it.
    pub(crate) default: Value,
}

impl Configuration {
    pub(crate) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap()
    }

    /// Returns the name that kubectl prints.
    pub(crate) fn printed(&self) -> String {
        format!("{}.evacuation.dev/{}", self.plural.strip_suffix('s').unwrap(), self.name())
    }

    /// Returns the same with the other value of the field.
    pub(crate) fn changed(&self) -> Self {
        let mut changed = self.clone();
        *changed.object.pointer_mut(self.field).unwrap() = self.other.clone();
        changed
    }

    /// Returns the same without the field.
    pub(crate) fn shortened(&self) -> Self {
        let mut shortened = self.clone();
        let (parent, field) = self.field.rsplit_once('/').unwrap();
        shortened.object.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field).unwrap();
        shortened
    }

    /// Returns the value of the field in an object of this kind.
    pub(crate) fn value(&self, object: &Value) -> Value {
        object.pointer(self.field).cloned().unwrap_or_default()
    }
}

/// A scene with a pod, and files for clients.
pub(crate) struct Workbench {
    scene: Scene,
    files: TempDir,
    /// The node of the drain. No other pod comes to it, so that the drain's counts do not change.
    node: String,
}

impl Deref for Workbench {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

impl Workbench {
    pub(crate) async fn new(prefix: &str) -> Self {
        let scene = Scene::new(prefix).await;
        // The app is silent for longer than the test takes. So the Evacuation does not change by itself.
        let responders = json!([{"name": "self", "timeoutSeconds": 3600}]);
        scene.pod(POD, PodSpec::registered(&responders)).await;
        let node = scene.own_node().await;
        Self { scene, files: TempDir::new().unwrap(), node }
    }

    /// Returns one configuration of each kind. The objects of the cluster have the name of the namespace.
    pub(crate) fn configurations(&self) -> [Configuration; 4] {
        [self.responder(), self.drain(), self.rule(), self.evacuation()]
    }

    pub(crate) fn responder(&self) -> Configuration {
        Configuration {
            plural: "evacuationresponders",
            object: json!({
                "apiVersion": "evacuation.dev/v1alpha1", "kind": "EvacuationResponder",
                "metadata": {"name": "db", "namespace": self.namespace(), "labels": {"app": "db"}},
                "spec": {
                    "selector": {"matchLabels": {"app": "db"}}, "name": "db.acme.io/failover",
                    "priority": 20000,
                },
            }),
            field: "/spec/priority",
            path: ".spec.priority".to_owned(),
            other: json!(30000),
            default: json!(10000),
        }
    }

    pub(crate) fn drain(&self) -> Configuration {
        Configuration {
            plural: "nodeevacuations",
            object: json!({
                "apiVersion": "evacuation.dev/v1alpha1", "kind": "NodeEvacuation",
                "metadata": {"name": self.namespace(), "labels": {"app": "db"}},
                "spec": {
                    "nodes": {"names": [self.node]}, "paused": true,
                    "requester": {"reason": "DiskFailure", "message": "a disk is replaced"},
                },
            }),
            field: "/spec/requester/message",
            path: ".spec.requester.message".to_owned(),
            other: json!("a fan is replaced"),
            default: Value::Null,
        }
    }

    pub(crate) fn rule(&self) -> Configuration {
        Configuration {
            plural: "nodeevacuationrules",
            object: json!({
                "apiVersion": "evacuation.dev/v1alpha1", "kind": "NodeEvacuationRule",
                "metadata": {"name": self.namespace(), "labels": {"app": "db"}},
                "spec": {
                    "marks": [{"taint": {"key": format!("example.com/{}", self.namespace())}}],
                    "paused": true,
                    // A number: a part of all nodes changes the status when another test adds a node.
                    "maxNodes": 1,
                    "template": {"requester": {"reason": "SpotReclaim", "message": "the cloud takes it"}},
                },
            }),
            field: "/spec/template/requester/message",
            path: ".spec.template.requester.message".to_owned(),
            other: json!("the cloud takes it back"),
            default: Value::Null,
        }
    }

    pub(crate) fn evacuation(&self) -> Configuration {
        Configuration {
            plural: "evacuations",
            object: json!({
                "apiVersion": "evacuation.dev/v1alpha1", "kind": "Evacuation",
                "metadata": {"name": POD, "namespace": self.namespace(), "labels": {"app": "db"}},
                "spec": {
                    "target": {"pod": {"name": POD}},
                    // A window that opens once in four years: so the controller does not ask the app.
                    "requesters": [{
                        "name": ENTRY, "reason": "DiskFailure", "message": "a disk is replaced",
                        "window": {"schedule": "0 0 29 2 *", "durationSeconds": 7200},
                    }],
                },
            }),
            field: "/spec/requesters/0/message",
            path: format!(".spec.requesters[name=\"{ENTRY}\",owner=\"admin\"].message"),
            other: json!("a fan is replaced"),
            default: Value::Null,
        }
    }

    /// Returns the folder of the files.
    pub(crate) fn folder(&self) -> &Path {
        self.files.path()
    }

    /// Writes the configuration to a file, and returns its path. A later call replaces the file.
    pub(crate) fn file(&self, configuration: &Configuration) -> String {
        // JSON is YAML.
        let path = self.folder().join(format!("{}.yaml", configuration.plural));
        std::fs::write(&path, format!("{:#}\n", configuration.object)).unwrap();
        path.display().to_string()
    }

    /// Returns kubectl in the namespace, as `admin`.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.platform().kubectl_command();
        command.args(arguments).args(["-n", self.namespace()]);
        command
    }

    /// Runs kubectl as `admin`.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        output_of("kubectl", self.command(arguments)).await.unwrap()
    }

    /// Runs kubectl as `admin`, which must succeed, and returns what it printed.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(output.success(), "{arguments:?}: {output:?}");
        output.stdout
    }

    /// Runs kubectl as `admin`, which must fail, and returns what it complained of.
    pub(crate) async fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert_eq!(output.code, Some(1), "{arguments:?}: {output:?}");
        output.stderr
    }

    /// Runs kubectl as that user of the scene.
    pub(crate) async fn run_as(&self, user: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        command.env("KUBECONFIG", self.control_plane().kubeconfig_for_user(user, None).unwrap());
        output_of("kubectl", command).await.unwrap()
    }

    /// Applies a configuration by `kubectl apply --server-side` as `admin`, which must succeed.
    pub(crate) async fn applied(&self, configuration: &Configuration, more: &[&str]) {
        let file = self.file(configuration);
        let mut arguments = vec!["apply", "--server-side", "-f", &file];
        arguments.extend(more);
        let printed = self.kubectl(&arguments).await;
        assert_eq!(printed, format!("{} serverside-applied\n", configuration.printed()));
    }

    /// Reads the object by a raw request, if it exists.
    pub(crate) async fn find(&self, configuration: &Configuration) -> Option<Value> {
        let namespaced = configuration.object["metadata"].get("namespace").is_some();
        let namespace = if namespaced { format!("namespaces/{}/", self.namespace()) } else { String::new() };
        let (plural, name) = (configuration.plural, configuration.name());
        let path = format!("/apis/evacuation.dev/v1alpha1/{namespace}{plural}/{name}");
        match self.admin().request::<Value>(http::Request::get(path).body(Vec::new()).unwrap()).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{plural}/{name}: {error}"),
        }
    }

    /// Reads the object by a raw request.
    pub(crate) async fn read(&self, configuration: &Configuration) -> Value {
        self.find(configuration).await.unwrap_or_else(|| panic!("{} is missing", configuration.printed()))
    }

    /// Reads the object once the controller has nothing more to write.
    pub(crate) async fn settled(&self, configuration: &Configuration) -> Value {
        let settled = eventually(PATIENCE, "the controller has seen the object", || async {
            let object = self.read(configuration).await;
            let seen = &object["status"]["observedGeneration"];
            let has_status = configuration.plural != "evacuationresponders";
            if has_status && *seen != object["metadata"]["generation"] { Err(object) } else { Ok(object) }
        });
        settled.await.unwrap()
    }

    /// Deletes the object, and waits until it is gone.
    pub(crate) async fn removes(&self, configuration: &Configuration) {
        self.kubectl(&["delete", configuration.plural, configuration.name(), "--wait=false"]).await;
        let gone = eventually(PATIENCE, "the object is removed", || async {
            self.find(configuration).await.map_or(Ok(()), Err)
        });
        gone.await.unwrap();
    }

    /// Deletes the objects of the cluster. The others go with the namespace.
    pub(crate) async fn close(self) {
        for configuration in [self.drain(), self.rule()] {
            if self.find(&configuration).await.is_some() {
                self.removes(&configuration).await;
            }
        }
    }
}

/// Returns the entry of `metadata.managedFields` of that manager and operation, or null.
pub(crate) fn ownership<'a>(object: &'a Value, manager: &str, operation: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    let entry = entries.iter().find(|entry| entry["manager"] == manager && entry["operation"] == operation);
    entry.unwrap_or(&Value::Null)
}

/// Returns the managers of an object with their operations, such as `kubectl Apply`, but for the controller.
pub(crate) fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    let name = |entry: &Value| {
        format!("{} {}", entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap())
    };
    let mut names: Vec<_> = entries.iter().filter(|entry| entry["subresource"].is_null()).map(name).collect();
    names.sort();
    names
}

/// Asserts that a text has all these parts.
#[track_caller]
pub(crate) fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}
