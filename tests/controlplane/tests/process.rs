//! Processes and a store alone, without a control plane.
#![allow(clippy::unwrap_used, reason = "a test fails by panic")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use controlplane::{Error, Etcd, Folder, Process, eventually, free_port};

const SOON: Duration = Duration::from_secs(20);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Returns whether a process exists and is no zombie of a careless parent.
fn lives(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

async fn gone(pid: u32) {
    eventually(SOON, "the end of the process", async || if lives(pid) { Err("it lives") } else { Ok(()) })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_dropped_process_is_killed() {
    let folder = Folder::new("test").unwrap();
    let process = Process::spawn("sleeper", shell("trap '' TERM; exec sleep 600"), folder.path()).unwrap();
    let pid = process.pid().unwrap();
    assert!(lives(pid));
    drop(process);
    assert!(!lives(pid));
}

#[tokio::test]
async fn a_process_gets_sigterm_and_may_end_in_order() {
    let folder = Folder::new("test").unwrap();
    let script = "trap 'echo bye; exit 3' TERM; echo hello; while :; do sleep 0.05; done";
    let process = Process::spawn("polite", shell(script), folder.path()).unwrap();
    process.wait_for_log(SOON, "hello").await.unwrap();
    let status = process.terminate().await.unwrap();
    assert_eq!(status.code(), Some(3));
    assert_eq!(process.log().unwrap(), "hello\nbye\n");
    assert!(matches!(process.terminate().await, Err(Error::NotRunning { .. })));
}

#[tokio::test]
async fn a_paused_process_can_be_terminated() {
    let folder = Folder::new("test").unwrap();
    let process = Process::spawn("frozen", shell("exec sleep 600"), folder.path()).unwrap();
    process.pause().unwrap();
    process.terminate().await.unwrap();
    assert!(!process.is_running());
}

#[tokio::test]
async fn waiting_for_a_process_that_ended_fails_at_once_with_its_log() {
    let folder = Folder::new("test").unwrap();
    let process = Process::spawn("failing", shell("echo no such flag >&2; exit 2"), folder.path()).unwrap();
    let error = process.wait_for_port(Duration::from_mins(10), free_port().unwrap()).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Exited { .. }), "{text}");
    assert!(
        text.contains("failing") && text.contains("no such flag") && text.contains("exit status: 2"),
        "{text}"
    );
}

#[tokio::test]
async fn a_restart_runs_the_same_command_and_appends_to_the_log() {
    let folder = Folder::new("test").unwrap();
    let process = Process::spawn("twice", shell("echo started; exec sleep 600"), folder.path()).unwrap();
    process.wait_for_log(SOON, "started\n").await.unwrap();
    let first = process.pid().unwrap();
    process.restart().await.unwrap();
    process.wait_for_log(SOON, "started\nstarted\n").await.unwrap();
    assert_ne!(process.pid().unwrap(), first);
    assert!(!lives(first));
}

#[tokio::test]
async fn an_etcd_alone_answers_plain_http_when_it_is_waited_for() {
    let etcd = Etcd::start().await.unwrap();
    let port = etcd.endpoint().rsplit(':').next().unwrap().parse().unwrap();
    etcd.component().process().wait_for_http(SOON, port, "/version").await.unwrap();
    let refused =
        etcd.component().process().wait_for_http(Duration::from_millis(200), port, "/no-such-path").await;
    assert!(refused.unwrap_err().to_string().contains("etcd is not ready"));
}

#[test]
fn a_program_that_is_missing_is_named() {
    let folder = Folder::new("test").unwrap();
    let error = Process::spawn("ghost", Command::new("/no/such/program"), folder.path()).unwrap_err();
    assert_eq!(error.to_string(), "cannot start ghost");
}

/// Not a test of its own: the owner that the next tests kill. It tells what it owns, and waits.
#[tokio::test]
#[ignore = "run by other tests"]
async fn owner() {
    let Ok(report) = std::env::var("OWNER_REPORT") else {
        return;
    };
    let folder = Folder::new("files").unwrap();
    let process =
        Process::spawn("sleeper", shell("trap '' TERM INT; exec sleep 600"), folder.path()).unwrap();
    let left = Process::spawn("left", shell("exec sleep 600"), folder.path()).unwrap();
    left.leave_running();
    let text = format!("{} {} {}", process.pid().unwrap(), left.pid().unwrap(), folder.path().display());
    let unfinished = format!("{report}.unfinished");
    std::fs::write(&unfinished, text).unwrap();
    std::fs::rename(unfinished, report).unwrap();
    std::future::pending::<()>().await;
}

async fn after_death_by(signal: controlplane::Signal) {
    let folder = Folder::new("test").unwrap();
    let report = folder.path().join("report");
    // Ctrl-C may be ignored here, as it is in the background of a shell, and children inherit that.
    let mut command = Command::new("env");
    command
        .arg("--default-signal=INT")
        .arg(std::env::current_exe().unwrap())
        .args(["owner", "--exact", "--ignored"])
        .env("OWNER_REPORT", &report)
        .env_remove("CONTROLPLANE_KEEP");
    let owner = Process::spawn("owner", command, folder.path()).unwrap();
    let text =
        owner.wait_for(SOON, "the owner's report", async || std::fs::read_to_string(&report)).await.unwrap();
    let mut words = text.splitn(3, ' ');
    let process: u32 = words.next().unwrap().parse().unwrap();
    let left: u32 = words.next().unwrap().parse().unwrap();
    let files = Path::new(words.next().unwrap());
    assert!(lives(process) && lives(left) && files.is_dir());

    owner.signal(signal).unwrap();
    gone(process).await;
    eventually(
        SOON,
        "the folder is removed",
        async || {
            if files.exists() { Err("it is there") } else { Ok(()) }
        },
    )
    .await
    .unwrap();
    assert!(lives(left), "a process that was left running lives on");
    let killed = shell(&format!("kill {left}")).status().unwrap();
    assert!(killed.success());
    gone(left).await;
}

#[tokio::test]
async fn sigkill_of_the_owner_leaves_no_process_and_no_file() {
    after_death_by(controlplane::Signal::Kill).await;
}

#[tokio::test]
async fn ctrl_c_leaves_no_process_and_no_file() {
    after_death_by(controlplane::Signal::Interrupt).await;
}

#[tokio::test]
async fn an_etcd_is_ready_after_its_start_and_its_restart() {
    let etcd = Etcd::start().await.unwrap();
    assert!(etcd.endpoint().starts_with("http://127.0.0.1:"));
    assert!(etcd.tls().is_none());
    let path = etcd.folder().path().to_owned();
    let pid = etcd.component().process().pid().unwrap();
    etcd.stop().unwrap();
    assert!(!lives(pid));
    etcd.start_again().await.unwrap();
    let pid = etcd.component().process().pid().unwrap();
    drop(etcd);
    assert!(!lives(pid));
    assert!(!path.exists());
}

#[tokio::test]
async fn an_etcd_with_tls_demands_a_client_certificate() {
    let etcd = Etcd::start_with_tls().await.unwrap();
    assert!(etcd.endpoint().starts_with("https://127.0.0.1:"));
    let tls = etcd.tls().unwrap();
    assert!(tls.ca.is_file() && tls.client.certificate.is_file() && tls.client.key.is_file());
    let log = etcd.component().process().log().unwrap();
    assert!(!log.contains("bad certificate"), "etcd's own client is refused: {log}");
}
