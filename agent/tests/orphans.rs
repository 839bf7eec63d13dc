//! The agent as the first process of its container, which the system hands every orphan.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic"
)]

use std::{
    io::Read,
    os::unix::{net::UnixStream, process::CommandExt},
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

const KUBECONFIG: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "a", "user": {}}]}"#;

/// Not a test: the process that the test starts. It asks for the orphans of its descendants, which the first
/// process of a container gets unasked, and becomes the agent.
#[test]
#[ignore = "becomes the agent, for the test below"]
fn becomes_the_agent() {
    let Ok(folder) = std::env::var("ORPHANS_FOLDER") else {
        return;
    };
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let work = format!("sh -c 'echo $$ > {folder}/orphan; sleep 0.3' & echo flushed; exit 1");
    let failed = Command::new(env!("CARGO_BIN_EXE_evacuation-agent"))
        .args(["run", "--socket", &format!("{folder}/socket")])
        .args(["--exec", "sh", "-c", &work])
        .exec();
    panic!("{failed}");
}

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The agent's reply to a preStop hook.
fn hook(socket: &Path) -> String {
    let mut stream = until("the agent listens", || UnixStream::connect(socket).ok());
    let mut line = String::new();
    stream.read_to_string(&mut line).unwrap();
    line
}

#[test]
fn what_a_command_leaves_behind_does_not_stay_a_zombie_and_the_command_keeps_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::write(&config, KUBECONFIG).unwrap();
    let agent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "becomes_the_agent", "--ignored", "--nocapture"])
        .env("ORPHANS_FOLDER", folder.path())
        .env("KUBECONFIG", config)
        .spawn()
        .unwrap();
    let agent = Agent(agent);
    for _ in 0..5 {
        // The agent takes the status of its command, also while other children end.
        assert_eq!(hook(&folder.path().join("socket")), "refused flushed\n");
    }
    let orphan = until("the orphan's number", || {
        let pid = std::fs::read_to_string(folder.path().join("orphan")).ok()?;
        pid.ends_with('\n').then(|| pid.trim().to_owned())
    });
    let stat = Path::new("/proc").join(&orphan).join("stat");
    until("the orphan is waited for", || (!stat.exists() && zombies(agent.0.id()) == 0).then_some(()));
}

/// Number of zombies among the children of a process.
fn zombies(parent: u32) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let after = stat.rsplit(") ").next().unwrap_or_default();
            after.starts_with(&format!("Z {parent} "))
        })
        .count()
}
