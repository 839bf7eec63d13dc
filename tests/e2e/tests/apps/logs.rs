//! Logs as lines of JSON.

use std::process::Command;

use controlplane::output_of;
use evacuation_e2e::{App, PlatformOptions, PodSpec, Programs, Scene};
use serde_json::{Value, json};

const JSON: &str = "--log-format=json";

/// Returns the lines of a log. Each is an object with the fields that a collector looks for.
fn lines(name: &str, log: &str) -> Vec<Value> {
    let line = |line: &str| {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
        for field in ["timestamp", "level", "target", "message"] {
            assert!(line[field].is_string(), "{name}: {field}: {line}");
        }
        line
    };
    log.lines().map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_of_each_process_is_json() {
    let arguments = || vec![JSON.to_owned(), "--v=3".to_owned()];
    let gateway = "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\n".to_owned();
    let options = PlatformOptions {
        apiserver_args: arguments(),
        controller_args: arguments(),
        gateway: Some(gateway),
        gateway_args: arguments(),
        ..PlatformOptions::default()
    };
    let scene = Scene::alone("logs", options).await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let agent = App::agent(scene.platform(), &pod, &[JSON, "--exec", "true"]).await.unwrap();
    let evacuation = scene.ask(&pod, json!({})).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
    let platform = scene.platform();
    let gateways = platform.gateway().unwrap().processes();
    for process in platform.apiservers().iter().chain(platform.controllers()).chain(gateways) {
        process.terminate().await.unwrap();
        let said = lines(process.name(), &process.log().unwrap());
        assert!(said.iter().any(|line| line["level"] == "DEBUG"), "{}", process.name());
    }
    let said = lines("agent", &agent.process().log().unwrap());
    assert!(said.iter().any(|line| line["message"] == "asked" && line["fields"]["evacuation"].is_string()));
}

#[tokio::test]
async fn the_error_with_which_a_process_does_not_start_is_json_with_its_causes() {
    let programs = Programs::find().unwrap();
    let tls = ["--tls-cert-file=/nowhere/tls.crt", "--tls-private-key-file=/nowhere/tls.key"];
    let store = ["--storage=embedded", "--data-dir=/nowhere"];
    let table: [(&str, Vec<&str>); 5] = [
        ("evacuation-apiserver", [&tls[..], &store[..]].concat()),
        ("evacuation-controller", vec!["--kubeconfig=/nowhere/config"]),
        ("evacuation-gateway", [&tls[..], &["--kubeconfig=/nowhere/config"]].concat()),
        ("evacuation-agent", vec!["run", "--health-address=192.0.2.1:1", "--url=http://127.0.0.1:1/"]),
        ("machinery-example", [&tls[..], &["--data-file=/nowhere/store"]].concat()),
    ];
    for (name, arguments) in table {
        let mut command = Command::new(programs.binary(name));
        command
            .args(arguments)
            .arg(JSON)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env("KUBECONFIG", "/nowhere/config");
        let output = output_of(name, command).await.unwrap();
        assert!(!output.success() && output.stdout.is_empty(), "{name}: {output:?}");
        let said = lines(name, &output.stderr);
        let last = said.last().unwrap();
        assert_eq!((&last["level"], &last["target"]), (&json!("ERROR"), &json!(name.replace('-', "_"))));
        assert!(last["message"].as_str().unwrap().contains(": "), "no cause: {last}");
    }
}
