//! The programs, and the objects that they work on.

use std::process::Command;

use controlplane::{GoTool, Output, eventually, output_of};
use evacuation_e2e::scene::PATIENCE;
use serde_json::{Value, json};

use crate::workbench::{Configuration, Workbench, managers};

/// Module with Helm, Flux, controller-runtime and client-go, and a program of this project that calls them.
const GITOPS: &[(&str, &str)] = &[
    ("go.mod", include_str!("../../callers/gitops/go.mod")),
    ("go.sum", include_str!("../../callers/gitops/go.sum")),
    ("main.go", include_str!("../../callers/gitops/main.go")),
    ("clientgo.go", include_str!("../../callers/gitops/clientgo.go")),
    ("events.go", include_str!("../../callers/gitops/events.go")),
    ("flux.go", include_str!("../../callers/gitops/flux.go")),
    ("runtime.go", include_str!("../../callers/gitops/runtime.go")),
];
/// Version of Go that Flux needs.
const TOOLCHAIN: Option<&str> = Some("go1.27.0");

/// The program of this project.
pub(crate) const STEPS: GoTool = GoTool {
    name: "gitops",
    package: ".",
    module: None,
    toolchain: TOOLCHAIN,
    linker_flags: None,
    files: GITOPS,
};
/// Helm as its users have it.
pub(crate) const HELM: GoTool = GoTool {
    name: "helm",
    package: "helm.sh/helm/v4/cmd/helm",
    module: None,
    toolchain: TOOLCHAIN,
    linker_flags: None,
    files: GITOPS,
};
/// Argo CD's engine. It needs an older version of the Kubernetes libraries.
pub(crate) const ARGO_CD: GoTool = GoTool {
    name: "argocd",
    package: ".",
    module: None,
    toolchain: None,
    linker_flags: None,
    files: &[
        ("go.mod", include_str!("../../callers/argocd/go.mod")),
        ("go.sum", include_str!("../../callers/argocd/go.sum")),
        ("main.go", include_str!("../../callers/argocd/main.go")),
    ],
};

/// Runs a program as `admin`.
pub(crate) async fn run(bench: &Workbench, tool: GoTool, arguments: &[&str]) -> Output {
    let built = tokio::task::spawn_blocking(move || tool.build()).await.unwrap().unwrap();
    let mut command = Command::new(built.program);
    command.args(arguments).env("KUBECONFIG", bench.control_plane().kubeconfig());
    for folder in ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(folder, bench.folder());
    }
    output_of(tool.name, command).await.unwrap()
}

/// Runs a program as `admin`, which must succeed, and returns its report.
pub(crate) async fn reports(bench: &Workbench, tool: GoTool, arguments: &[&str]) -> Value {
    let output = run(bench, tool, arguments).await;
    assert!(output.success(), "{arguments:?}: {}\n{}", output.stdout, output.stderr);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout))
}

/// Writes the configurations to files, and returns a step of a program with these files.
pub(crate) fn with_files(bench: &Workbench, step: &[&str], configurations: &[Configuration]) -> Vec<String> {
    let files = configurations.iter().map(|configuration| bench.file(configuration));
    step.iter().map(|&word| word.to_owned()).chain(files).collect()
}

/// Runs a step with these configurations, which must succeed, and returns its report.
pub(crate) async fn step(
    bench: &Workbench,
    tool: GoTool,
    step: &[&str],
    configurations: &[Configuration],
) -> Value {
    let arguments = with_files(bench, step, configurations);
    reports(bench, tool, &arguments.iter().map(String::as_str).collect::<Vec<_>>()).await
}

/// Returns what a report should say when it says the same of each kind.
pub(crate) fn of_each_kind(configurations: &[Configuration], said: &Value) -> Value {
    configurations
        .iter()
        .map(|configuration| (configuration.object["kind"].as_str().unwrap().to_owned(), said.clone()))
        .collect()
}

/// Reads the objects once the controller has nothing more to write.
pub(crate) async fn settled(bench: &Workbench, configurations: &[Configuration]) -> Vec<Value> {
    let mut objects = Vec::new();
    for configuration in configurations {
        objects.push(bench.settled(configuration).await);
    }
    objects
}

/// Asserts that the objects have the fields of their configurations, and this manager alone.
pub(crate) async fn stored_by(
    bench: &Workbench,
    configurations: &[Configuration],
    manager: &str,
) -> Vec<Value> {
    let objects = settled(bench, configurations).await;
    for (configuration, object) in configurations.iter().zip(&objects) {
        assert_eq!(configuration.value(object), configuration.value(&configuration.object));
        assert_eq!(managers(object), [manager], "{object}");
    }
    objects
}

/// Changes the field of each object by force, as another manager.
pub(crate) async fn drift(bench: &Workbench, configurations: &[Configuration]) {
    for configuration in configurations {
        let changed = configuration.changed();
        bench.applied(&changed, &["--force-conflicts", "--field-manager=intruder"]).await;
    }
}

/// Waits until none of the objects exists. The garbage collector ends a deletion in the foreground.
pub(crate) async fn all_gone(bench: &Workbench, configurations: &[Configuration]) {
    for configuration in configurations {
        let gone = eventually(PATIENCE, "the object is removed", || async {
            bench.find(configuration).await.map_or(Ok(()), Err)
        });
        gone.await.unwrap();
    }
}

/// Returns the resource versions by kind.
pub(crate) fn versions(objects: &[Value]) -> Value {
    let version = |object: &Value| {
        (object["kind"].as_str().unwrap().to_owned(), object["metadata"]["resourceVersion"].clone())
    };
    json!(objects.iter().map(version).collect::<serde_json::Map<_, _>>())
}
