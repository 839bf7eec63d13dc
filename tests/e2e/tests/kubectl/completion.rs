//! Completion in the shell, as kubectl itself asks for it.

use std::os::unix::fs::PermissionsExt;

use controlplane::output_of;
use evacuation_e2e::PodSpec;
use kube::ResourceExt;
use tempfile::TempDir;

use crate::{
    desk::{Desk, assert_has},
    drain::own_node,
};

/// kubectl with the program that `kubectl evacuate completion` prints on its PATH.
struct Shell<'a> {
    desk: &'a Desk,
    folder: TempDir,
}

impl<'a> Shell<'a> {
    async fn new(desk: &'a Desk) -> Self {
        let folder = TempDir::new().unwrap();
        let printed = desk.platform().kubectl(&["evacuate", "completion"]).await.unwrap();
        let program = folder.path().join("kubectl_complete-evacuate");
        std::fs::write(&program, printed.stdout).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { desk, folder }
    }

    /// The lines that kubectl gives to the shell for these words.
    async fn completes(&self, words: &[&str]) -> String {
        let mut kubectl = self.desk.platform().kubectl_command();
        let path = kubectl.get_envs().find(|(key, _)| *key == "PATH").and_then(|(_, value)| value).unwrap();
        let path = format!("{}:{}", self.folder.path().display(), path.to_string_lossy());
        kubectl.env("PATH", path).arg("__complete").args(words);
        let output = output_of("kubectl", kubectl).await.unwrap();
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stdout
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_completes_subcommands_flags_and_names() {
    let desk = Desk::new("complete").await;
    let node = own_node(&desk).await;
    desk.pods.create("db-0", &PodSpec::watching().on(&node)).await.unwrap();
    let evacuation = desk.evacuation("db-0").await.name_any();
    let drain = format!("drain-{node}");
    let flags = ["evacuate", "node", &node, "--name", &drain, "--force", "--detach"];
    let created = desk.platform().kubectl(&flags).await.unwrap();
    assert_eq!(created.code, Some(0), "{created:?}");

    let shell = Shell::new(&desk).await;
    let namespace = format!("--namespace={}", desk.namespace());
    for (words, expected) in [
        (&["evacuate", ""][..], &["node\tDrain nodes by asking", "status\t", "answer\t"][..]),
        (&["evacuate", "sta"], &["status\t"]),
        (&["evacuate", "node", "--ig"], &["--ignore-daemonsets\t"]),
        (&["evacuate", "node", "--on-refusal", ""], &["give-up\t", "override\t"]),
        (&["evacuate", "node", ""], &[&node]),
        (&["evacuate", "status", ""], &[&drain]),
        (&["evacuate", "cancel", "drain-"], &[&drain]),
        (&["evacuate", "why", &namespace, ""], &["db-0"]),
        (&["evacuate", "answer", &namespace, ""], &[&evacuation, "pod/db-0"]),
        (&["evacuate", "answer", &namespace, &evacuation, ""], &["accept\t", "refuse\t"]),
    ] {
        let lines = shell.completes(words).await;
        assert_has(&lines, expected);
        assert_eq!(lines.lines().last(), Some(":4"), "{words:?}: {lines}");
    }
    let begun = shell.completes(&["evacuate", "sta"]).await;
    assert_eq!(begun.lines().count(), 2, "{begun}");
    desk.cancel(&drain).await;
}
