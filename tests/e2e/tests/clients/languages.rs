//! The official clients of Python and JavaScript: custom objects, watches, and the generic clients.

use std::{os::unix::fs::symlink, process::Command};

use controlplane::output_of;
use evacuation_e2e::Packages;
use serde_json::{Value, json};

use crate::{
    websocket::console_token,
    workbench::{Workbench, assert_has, managers},
};

/// An official client, and a program of this project that calls it.
struct Language {
    packages: Packages,
    /// Words of the command that runs programs, in the folder of the packages.
    interpreter: &'static str,
    /// Name and content of the program.
    program: (&'static str, &'static str),
}

const PYTHON: Language = Language {
    packages: Packages {
        name: "python",
        files: &[("requirements.txt", include_str!("../../callers/python/requirements.txt"))],
        version: "python3 -c 'import sys; print(sys.version, sys.executable)'",
        install: "python3 -m venv --clear environment
             environment/bin/pip install --quiet --disable-pip-version-check --only-binary :all: \
                 --require-hashes -r requirements.txt",
    },
    interpreter: "environment/bin/python",
    program: ("client.py", include_str!("../../callers/python/client.py")),
};
/// Its packages have the version of Node.js that it needs, for the architecture of the machine.
const JAVASCRIPT: Language = Language {
    packages: Packages {
        name: "javascript",
        files: &[
            ("package.json", include_str!("../../callers/javascript/package.json")),
            ("package-lock.json", include_str!("../../callers/javascript/package-lock.json")),
        ],
        version: "npm --version",
        install: "npm ci --no-audit --no-fund --ignore-scripts",
    },
    interpreter: "node_modules/node-linux-*/bin/node",
    program: ("client.mjs", include_str!("../../callers/javascript/client.mjs")),
};

/// Runs a step of the program as `admin`, and returns its report.
async fn reports(bench: &Workbench, language: &Language, step: &str, more: &[&str]) -> Value {
    let packages = language.packages.folder().await.unwrap();
    let (name, content) = language.program;
    std::fs::write(bench.folder().join(name), content).unwrap();
    let modules = bench.folder().join("node_modules");
    if !modules.exists() {
        // Node.js looks for packages beside the program.
        symlink(packages.join("node_modules"), modules).ok();
    }
    let mut command = Command::new("sh");
    let line = format!("exec {}/{} {name} \"$@\"", packages.display(), language.interpreter);
    command.args(["-c", &line, "sh", step, &bench.file(&bench.evacuation())]).current_dir(bench.folder());
    command.args(more).env("KUBECONFIG", bench.control_plane().kubeconfig());
    command.env("NODE_EXTRA_CA_CERTS", bench.control_plane().ca());
    // The client of Python keeps there what it discovered, for the next server at the same address, too.
    command.env("TMPDIR", bench.folder());
    let output = output_of(name, command).await.unwrap();
    assert!(output.success(), "{step}: {}\n{}", output.stdout, output.stderr);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout))
}

/// Plays both steps, whose reports say the same in both languages.
async fn manages_and_follows(language: &Language, followed: &Value) {
    let name = language.packages.name;
    let bench = Workbench::new(name).await;
    let configuration = bench.evacuation();
    let report = reports(&bench, language, "manage", &[]).await;
    assert_eq!(report["pages"], json!([[configuration.name()]]), "{report}");
    let annotations = json!([{"merged": "yes"}, {"merged": "yes", "pointed": "yes"}]);
    assert_eq!(report["annotations"], annotations);
    assert_eq!(report["applied"], "yes");
    for (call, code, reason, part) in [
        ("missing", 404, "NotFound", "evacuations.evacuation.dev \"nobody\" not found"),
        ("existing", 409, "AlreadyExists", "already exists"),
        ("stale", 409, "Conflict", "the object has been modified"),
        ("invalid", 422, "Invalid", "spec.target"),
    ] {
        let refusal = &report[call];
        assert_eq!((&refusal["code"], &refusal["reason"]), (&json!(code), &json!(reason)), "{report}");
        assert_has(refusal["message"].as_str().unwrap(), &[part]);
    }
    let stored = bench.settled(&configuration).await;
    assert_eq!(stored["metadata"]["annotations"], annotations[1]);
    assert_eq!(stored["metadata"]["labels"], json!({"app": "db", "applied": "yes"}));
    assert_eq!(configuration.value(&stored), configuration.value(&configuration.object));
    let by = managers(&stored);
    for manager in [format!("{name} Update"), format!("{name}-apply Apply")] {
        assert!(by.contains(&manager), "{manager} is not in {by:?}");
    }

    let mut report = reports(&bench, language, "follow", &[]).await;
    let deleted = report.as_object_mut().unwrap().remove("deleted").unwrap();
    assert!(["Status", "Evacuation"].contains(&deleted.as_str().unwrap()), "{deleted}");
    assert_eq!(report, *followed);
    assert_eq!(bench.find(&configuration).await, None);
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_python_manages_and_watches_an_evacuation() {
    let followed = json!({"watch": ["ADDED", "MODIFIED", "DELETED"]});
    manages_and_follows(&PYTHON, &followed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_javascript_manages_an_evacuation_and_its_informer_follows() {
    let followed = json!({
        "watch": ["ADDED", "MODIFIED", "DELETED"], "informer": ["add", "update", "delete"],
        "cached": ["one"], "left": 0,
    });
    manages_and_follows(&JAVASCRIPT, &followed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_websocket_of_browsers_watches_through_kube_apiserver_and_directly() {
    let bench = Workbench::new("browser").await;
    let token = console_token(&bench, "evacuations").await;
    bench.applied(&bench.evacuation(), &[]).await;
    let own = format!("https://localhost:{}", bench.platform().apiserver_ports()[0]);
    for server in [bench.control_plane().server(), own.as_str()] {
        let report = reports(&bench, &JAVASCRIPT, "console", &[server, &token]).await;
        let expected = json!({
            "watch": ["ADDED", "MODIFIED"], "protocol": "base64.binary.k8s.io", "extensions": "",
            "closed": "CLOSE",
        });
        assert_eq!(report, expected, "{server}");
    }
    bench.close().await;
}
