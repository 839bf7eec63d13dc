//! The components of the manifests, as kustomize renders them beside the base.

use std::path::PathBuf;

use evacuation_e2e::{Scene, root};

use crate::stage::Stage;

/// Folder of the manifests.
fn deploy() -> PathBuf {
    root().join("deploy").canonicalize().unwrap()
}

/// Returns the objects of the base with the gateway and one more component. kubectl renders them.
async fn rendered(scene: &Scene, component: &str) -> String {
    let folder = scene.control_plane().folder().subfolder(component).unwrap().canonicalize().unwrap();
    // kustomize takes relative paths alone.
    let up: String = folder.components().skip(1).map(|_| "../").collect();
    let deploy = format!("{up}{}", deploy().strip_prefix("/").unwrap().display());
    let mut components = vec!["cert-manager", "gateway"];
    components.extend((!components.contains(&component)).then_some(component));
    let lines: Vec<_> = components.iter().map(|name| format!("- {deploy}/components/{name}")).collect();
    let components = lines.join("\n");
    let text = format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- {deploy}/base\ncomponents:\n{components}\n"
    );
    std::fs::write(folder.join("kustomization.yaml"), text).unwrap();
    let rendered =
        scene.control_plane().kubectl(&["kustomize", &folder.display().to_string()]).await.unwrap();
    assert!(rendered.success(), "{component}: {}", rendered.stderr);
    rendered.stdout
}

/// Returns the arguments of the first container of a Deployment.
fn arguments(rendered: &str, deployment: &str) -> Vec<String> {
    let objects =
        rendered.split("\n---\n").map(|text| serde_saphyr::from_str::<serde_json::Value>(text).unwrap());
    let found =
        objects.filter(|object| object["kind"] == "Deployment" && object["metadata"]["name"] == deployment);
    let found: Vec<_> = found.collect();
    assert_eq!(found.len(), 1, "one Deployment {deployment}");
    let arguments = found[0]["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    arguments.iter().map(|argument| argument.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_component_renders_beside_the_base_and_its_flags_reach_the_processes() {
    let stage = Stage::new("manifests").await;
    let mut names: Vec<String> = std::fs::read_dir(deploy().join("components"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert!(!names.is_empty());
    for name in &names {
        let rendered = rendered(&stage, name).await;
        let flag = match name.as_str() {
            "gateway-attestation" => Some(("evacuation-gateway", "--require-attestation")),
            "webhook-tokens" => Some((
                "evacuation-apiserver",
                "--webhook-token-account=evacuation-system/evacuation-webhook-auth",
            )),
            _ => None,
        };
        if let Some((deployment, flag)) = flag {
            let arguments = arguments(&rendered, deployment);
            assert_eq!(arguments.iter().filter(|argument| *argument == flag).count(), 1, "{arguments:?}");
        }
    }
}
