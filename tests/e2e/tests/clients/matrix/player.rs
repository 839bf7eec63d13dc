//! Plays the rows of a table.

use std::{
    fmt::Write as _,
    os::unix::fs::symlink,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use controlplane::{Output, Process, eventually, output_of};
use evacuation_e2e::{KUBECTL_1_32, scene::PATIENCE};

use crate::{
    matrix::{
        Subject, Version,
        row::{Mode, Outcome, Row},
    },
    workbench::Workbench,
};

/// A shell with one version of kubectl in a namespace.
pub(crate) struct Player<'a> {
    bench: &'a Workbench,
    version: Version,
    /// Folder with the kubeconfig and, of the old version, the program and its cache.
    folder: PathBuf,
    /// Number of commands that were followed. Each has a log of its own.
    followed: AtomicUsize,
}

impl<'a> Player<'a> {
    pub(crate) async fn new(bench: &'a Workbench, version: Version) -> Self {
        let folder = bench.folder().join("player");
        std::fs::create_dir_all(&folder).unwrap();
        if version == Version::Old {
            let built = tokio::task::spawn_blocking(|| KUBECTL_1_32.build()).await.unwrap().unwrap();
            symlink(built.program, folder.join("kubectl")).unwrap();
        }
        let player = Self { bench, version, folder, followed: AtomicUsize::new(0) };
        std::fs::copy(bench.control_plane().kubeconfig(), player.kubeconfig()).unwrap();
        let mut namespace = bench.platform().kubectl_command();
        namespace.env("KUBECONFIG", player.kubeconfig());
        namespace.args(["config", "set-context", "--current", "--namespace", bench.namespace()]);
        let output = output_of("kubectl", namespace).await.unwrap();
        assert!(output.success(), "{output:?}");
        player
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Returns a shell that runs the line, with one stream for all its output.
    fn shell(&self, subject: &Subject, line: &str) -> Command {
        let mut shell = Command::new("sh");
        let new = self.bench.platform().kubectl_command();
        shell.envs(new.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if self.version == Version::Old {
            let path = new.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
            let folders = std::iter::once(self.folder.clone()).chain(std::env::split_paths(path.unwrap()));
            shell.env("PATH", std::env::join_paths(folders).unwrap());
            shell.env("KUBECACHEDIR", self.folder.join("cache"));
        }
        shell.env("KUBECONFIG", self.kubeconfig()).envs(subject.environment());
        // Files of editors and of `kubectl diff` go with the folder.
        shell.env("TMPDIR", &self.folder);
        // The output of `kubectl diff` is that of its program, which must not depend on the user's language.
        shell.env("LC_ALL", "C").env_remove("KUBE_EDITOR").env("EDITOR", "false");
        shell.args(["-c", &format!("exec 2>&1\n{line}")]);
        shell
    }

    async fn run(&self, subject: &Subject, line: &str) -> Output {
        output_of("sh", self.shell(subject, line)).await.unwrap()
    }

    /// Asserts that this is the version whose rows are played.
    pub(crate) async fn introduces_itself(&self, subject: &Subject) {
        let output = self.run(subject, "kubectl version --client").await;
        let wanted = match self.version {
            Version::New => "Client Version: v1.37.",
            Version::Old => "Client Version: v1.32.",
        };
        assert!(output.stdout.starts_with(wanted), "{output:?}");
    }

    /// Plays the rows one after another, and returns a report of those whose outcome is another one.
    pub(crate) async fn plays(&self, subject: &Subject, rows: &[Row]) -> String {
        let mut report = String::new();
        for row in rows.iter().filter(|row| row.applies_to(subject.plural())) {
            let outcome = row.outcome(self.version);
            let differs = match row.mode {
                Mode::Once => differs(subject, &outcome, &self.run(subject, row.command).await),
                Mode::Soon => self.soon(subject, row.command, &outcome).await,
                Mode::Follow { change } => self.follows(subject, row.command, change, &outcome).await,
            };
            if let Err(difference) = differs {
                let (plural, line) = (subject.plural(), subject.expand(row.command));
                writeln!(
                    report,
                    "{plural} with {:?}$ {line}
{difference}",
                    self.version
                )
                .unwrap();
            }
        }
        report
    }

    async fn soon(&self, subject: &Subject, line: &str, outcome: &Outcome) -> Result<(), String> {
        let look = || async { differs(subject, outcome, &self.run(subject, line).await) };
        eventually(PATIENCE, "the outcome of the command", look).await.map_err(|error| error.to_string())
    }

    async fn follows(
        &self,
        subject: &Subject,
        line: &str,
        change: &str,
        outcome: &Outcome,
    ) -> Result<(), String> {
        let name = format!("follows-{}", self.followed.fetch_add(1, Ordering::Relaxed));
        // In place of the shell, so that it is killed with it.
        let shell = self.shell(subject, &format!("exec {line}"));
        let process = Process::spawn(name, shell, &self.folder).unwrap();
        let has = async |parts: &[&str]| {
            let log = process.log().unwrap();
            let missing = parts.iter().find(|part| !log.contains(&subject.expand(part)));
            missing.map_or(Ok(()), |part| Err(format!("no {part:?} in {log}")))
        };
        let (first, rest) = outcome.has.split_first().unwrap();
        let began = eventually(PATIENCE, "the beginning", || has(std::slice::from_ref(first))).await;
        began.map_err(|error| error.to_string())?;
        let followed = eventually(PATIENCE, "the changes", || async {
            let output = self.run(subject, change).await;
            if !output.success() {
                return Err(format!("{output:?}"));
            }
            has(rest).await
        });
        followed.await.map_err(|error| error.to_string())?;
        process.kill().unwrap();
        Ok(())
    }
}

/// Returns in what the output is not the outcome.
fn differs(subject: &Subject, outcome: &Outcome, output: &Output) -> Result<(), String> {
    let has = |part: &&&str| output.stdout.contains(&subject.expand(part));
    let mut differences: Vec<String> = Vec::new();
    if output.code != Some(outcome.code) {
        differences.push(format!("status {:?} and not {}", output.code, outcome.code));
    }
    differences.extend(outcome.has.iter().filter(|part| !has(part)).map(|part| format!("no {part:?}")));
    differences.extend(outcome.lacks.iter().filter(has).map(|part| format!("there is {part:?}")));
    if differences.is_empty() {
        Ok(())
    } else {
        Err(format!("{}\n{}", differences.join("; "), output.stdout))
    }
}
