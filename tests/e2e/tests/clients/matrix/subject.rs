//! The object that a table is played with, as variables of its commands.

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::workbench::{Configuration, Workbench};

/// Plural of the custom resource that the table is played with, too: kube-apiserver's own answers.
const WIDGETS: &str = "widgets";
const WIDGET_GROUP: &str = "clients.example.com";
/// Set once the definition of the custom resource is there. It stays as long as the platform of the suite.
static DEFINED: OnceCell<()> = OnceCell::const_new();

/// The object that a table is played with.
pub(crate) struct Subject {
    configuration: Configuration,
    group: String,
    /// Variables of the commands, longest names first.
    variables: Vec<(&'static str, String)>,
}

impl Subject {
    /// Returns the objects of this project's kinds.
    pub(crate) fn all(bench: &Workbench) -> Vec<Self> {
        bench.configurations().map(|configuration| Self::new(bench, configuration, "evacuation.dev")).into()
    }

    /// Returns the object of that kind.
    pub(crate) fn of(bench: &Workbench, plural: &str) -> Self {
        Self::all(bench).into_iter().find(|subject| subject.plural() == plural).unwrap()
    }

    /// Returns the object of a custom resource. The first call creates its definition.
    pub(crate) async fn widget(bench: &Workbench) -> Self {
        DEFINED.get_or_init(|| define(bench)).await;
        let mut configuration = bench.responder();
        configuration.plural = WIDGETS;
        configuration.object["apiVersion"] = json!(format!("{WIDGET_GROUP}/v1alpha1"));
        configuration.object["kind"] = json!("Widget");
        Self::new(bench, configuration, WIDGET_GROUP)
    }

    fn new(bench: &Workbench, mut configuration: Configuration, group: &str) -> Self {
        // Objects of the cluster are selected by this label alone.
        configuration.object["metadata"]["labels"]["bench"] = json!(bench.namespace());
        let group = group.to_owned();
        let mut subject = Self { configuration, group, variables: Vec::new() };
        subject.variables = subject.variables(bench);
        subject.variables.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        subject
    }

    fn variables(&self, bench: &Workbench) -> Vec<(&'static str, String)> {
        let configuration = &self.configuration;
        let (plural, name) = (configuration.plural, configuration.name());
        let kind = configuration.object["kind"].as_str().unwrap();
        let namespaced = configuration.object["metadata"].get("namespace").is_some();
        let folder = if namespaced { format!("namespaces/{}/", bench.namespace()) } else { String::new() };
        let plain = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let changed = configuration.changed();
        let file = |name: &str, object: &Value| {
            let path = bench.folder().join(format!("{plural}-{name}.json"));
            std::fs::write(&path, format!("{object:#}\n")).unwrap();
            path.display().to_string()
        };
        let mut unknown = configuration.object.clone();
        unknown["spec"]["colour"] = json!("red");
        let mut nobody = configuration.object.clone();
        nobody["metadata"]["name"] = json!("nobody");
        vec![
            ("NS", bench.namespace().to_owned()),
            ("GROUP", self.group.clone()),
            ("PLURAL", plural.to_owned()),
            ("SINGULAR", kind.to_lowercase()),
            ("KIND", kind.to_owned()),
            ("LIST", format!("{kind}List")),
            ("NAME", name.to_owned()),
            ("PRINTED", format!("{}.{}/{name}", kind.to_lowercase(), self.group)),
            ("COLLECTION", format!("/apis/{}/v1alpha1/{folder}{plural}", self.group)),
            ("FOLDER", bench.folder().display().to_string()),
            ("FILE", file("object", &configuration.object)),
            ("CHANGED", file("changed", &changed.object)),
            ("SHORTENED", file("shortened", &configuration.shortened().object)),
            ("UNKNOWN", file("unknown", &unknown)),
            ("NOBODY", file("nobody", &nobody)),
            ("POINTER", configuration.field.to_owned()),
            ("FIELD", dotted(configuration.field)),
            ("VALUE", plain(configuration.value(&configuration.object))),
            ("OTHER", plain(configuration.other.clone())),
            ("OTHER_JSON", configuration.other.to_string()),
            ("SPEC_PATCH", json!({"spec": changed.object["spec"]}).to_string()),
        ]
    }

    pub(crate) fn plural(&self) -> &'static str {
        self.configuration.plural
    }

    /// Returns the variables, for the environment of a shell.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Returns a part of an output with the values of its variables.
    pub(crate) fn expand(&self, part: &str) -> String {
        self.environment()
            .fold(part.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
    }
}

/// Returns a JSON pointer as kubectl's path: `/spec/items/0/name` as `.spec.items[0].name`.
fn dotted(pointer: &str) -> String {
    let step = |step: &str| match step.parse::<usize>() {
        Ok(index) => format!("[{index}]"),
        Err(_) => format!(".{step}"),
    };
    pointer.split('/').skip(1).map(step).collect()
}

/// Creates the definition of the custom resource, and waits until it is served.
async fn define(bench: &Workbench) {
    let file = bench.folder().join("definition.yaml");
    std::fs::write(&file, definition().to_string()).unwrap();
    bench.kubectl(&["create", "-f", &file.display().to_string()]).await;
    let name = format!("crd/{WIDGETS}.{WIDGET_GROUP}");
    bench.kubectl(&["wait", "--for=condition=Established", &name, "--timeout=60s"]).await;
}

/// Returns the definition of a custom resource with the fields of an EvacuationResponder.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{WIDGETS}.{WIDGET_GROUP}")},
        "spec": {
            "group": WIDGET_GROUP, "scope": "Namespaced",
            "names": {"plural": WIDGETS, "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "description": "A widget.",
                    "properties": {
                        "spec": {
                            "type": "object", "description": "Wanted state.",
                            "properties": {
                                "name": {"type": "string"},
                                "priority": {"type": "integer", "default": 10000},
                                "selector": {
                                    "type": "object",
                                    "properties": {"matchLabels": {
                                        "type": "object", "additionalProperties": {"type": "string"},
                                    }},
                                },
                            },
                        },
                        "status": {
                            "type": "object", "properties": {"observedGeneration": {"type": "integer"}},
                        },
                    },
                }},
            }],
        },
    })
}
