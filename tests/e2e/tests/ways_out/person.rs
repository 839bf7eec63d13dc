//! A person at a terminal: a user with roles, who runs the commands that texts name.

use std::{path::PathBuf, process::Command};

use anyhow::bail;
use controlplane::{Output, eventually, output_of};
use evacuation_e2e::{Scene, scene::PATIENCE};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

/// A user of one scene.
#[derive(Debug)]
pub(crate) struct Person<'s> {
    scene: &'s Scene,
    pub(crate) name: String,
    kubeconfig: PathBuf,
}

impl<'s> Person<'s> {
    /// A user without rights.
    pub(crate) fn new(scene: &'s Scene, name: &str) -> Self {
        let name = format!("{name}-of-{}", scene.namespace());
        let kubeconfig = scene.control_plane().kubeconfig_for_user(&name, None).unwrap();
        Self { scene, name, kubeconfig }
    }

    /// A user who drains nodes and has no other right.
    pub(crate) async fn drainer(scene: &'s Scene, name: &str) -> Self {
        let person = Self::new(scene, name);
        person.bind_in_cluster("evacuation:node-drainer").await;
        let right = json!({"group": "evacuation.dev", "resource": "nodeevacuations", "verb": "create"});
        scene.decided(&person.name, &right, true).await;
        person
    }

    /// A user with the role `edit` in the scene's namespace, such as the team of an app.
    pub(crate) async fn editor(scene: &'s Scene, name: &str) -> Self {
        let person = Self::new(scene, name);
        let right = json!({"group": "evacuation.dev", "resource": "evacuations", "verb": "create"});
        person.bind("edit", &right).await;
        for (group, resource) in [("", "pods"), ("policy", "poddisruptionbudgets")] {
            let right = json!({"group": group, "resource": resource, "verb": "delete"});
            scene.decided(&person.name, &right, true).await;
        }
        person
    }

    /// Gives the user the right to delete pods in the scene's namespace, by the role that an error names.
    pub(crate) async fn may_delete_pods(&self, error: &str) {
        assert!(error.contains(&format!("bound in namespace {}", self.scene.namespace())), "{error}");
        let right = json!({"group": "", "resource": "pods", "verb": "delete"});
        self.bind(role(error), &right).await;
    }

    /// Binds the user to a ClusterRole in the whole cluster.
    pub(crate) async fn bind_in_cluster(&self, role: &str) {
        let binding = json!({
            "metadata": {"generateName": "way-out-"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": self.name}],
        });
        let bindings: Api<ClusterRoleBinding> = Api::all(self.scene.admin());
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    }

    /// Binds the user to a ClusterRole in the scene's namespace, and waits until that right is known.
    pub(crate) async fn bind(&self, role: &str, right: &Value) {
        self.scene.bind(&self.name, "ClusterRole", role).await;
        self.scene.decided(&self.name, right, true).await;
    }

    /// Runs a command as a shell does.
    pub(crate) async fn tries(&self, command: &str) -> Output {
        let kubectl = self.scene.platform().kubectl_command();
        let program = kubectl.get_program().to_str().unwrap().to_owned();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command.replacen("kubectl", &program, 1));
        for (name, value) in kubectl.get_envs() {
            shell.env(name, value.unwrap());
        }
        shell.env("KUBECONFIG", &self.kubeconfig);
        output_of("kubectl", shell).await.unwrap()
    }

    /// Runs a command, which must succeed, and returns what it printed.
    pub(crate) async fn runs(&self, command: &str) -> String {
        let output = self.tries(command).await;
        assert_eq!(output.code, Some(0), "{command}: {output:?}");
        output.stdout
    }

    /// Repeats a command until the servers know the rights that it needs, and returns its last run.
    pub(crate) async fn runs_once_allowed(&self, command: &str) -> Output {
        let run = eventually(PATIENCE, command, || async {
            let output = self.tries(command).await;
            if output.code == Some(0) { Ok(output) } else { bail!("{output:?}") }
        });
        run.await.unwrap()
    }

    /// Runs a command, which must fail, and returns what it complained of.
    pub(crate) async fn fails(&self, command: &str) -> String {
        let output = self.tries(command).await;
        assert_eq!(output.code, Some(1), "{command}: {output:?}");
        output.stderr
    }

    /// Repeats a command until its output names a command that begins like that, and returns the latter.
    pub(crate) async fn reads(&self, command: &str, beginning: &str) -> String {
        let read = eventually(PATIENCE, beginning, || async {
            let output = self.tries(command).await;
            let text = output.stdout.clone() + "\n" + &output.stderr;
            match commands(&text).into_iter().find(|found| found.starts_with(beginning)) {
                Some(found) => Ok(found),
                None => bail!("{output:?}"),
            }
        });
        read.await.unwrap()
    }
}

/// Returns the ClusterRole that an error names.
pub(crate) fn role(error: &str) -> &str {
    let (_, rest) = error.split_once("the ClusterRole ").unwrap_or_else(|| panic!("{error}"));
    rest.split(' ').next().unwrap()
}

/// Returns the kubectl commands that a text names. A command ends with its line, at a quoted argument's end
/// aside, or before a comma, a semicolon or a period that ends a part of a sentence.
pub(crate) fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        for (start, _) in line.match_indices("kubectl ") {
            let mut end = line.len();
            let mut quoted = false;
            for (place, character) in line[start..].char_indices() {
                quoted ^= character == '\'';
                let rest = &line[start + place..];
                let ends = [", ", "; ", ". ", " (", ": "].iter().any(|end| rest.starts_with(end));
                if !quoted && ends {
                    end = start + place;
                    break;
                }
            }
            found.push(line[start..end].trim_end_matches(['.', ',', ';']).to_owned());
        }
    }
    found
}

#[test]
fn a_command_is_taken_out_of_its_sentence() {
    let text = "what helps: run kubectl evacuate override db-0 -n shop, or set a deadline: kubectl evacuate \
                set node-a --deadline=10m\nwarning: kubectl patch nodeevac d -p '{\"a\": 1, \"b\": 2}'";
    assert_eq!(
        commands(text),
        [
            "kubectl evacuate override db-0 -n shop",
            "kubectl evacuate set node-a --deadline=10m",
            "kubectl patch nodeevac d -p '{\"a\": 1, \"b\": 2}'",
        ]
    );
}
