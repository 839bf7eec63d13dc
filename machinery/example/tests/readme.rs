//! The README's program is the example `greetings`, and it serves.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panic")]

use std::{
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// Starts a program that may open 200 files, and may raise that.
const SMALL_LIMIT: &str = r#"ulimit -Sn 200 && exec "$0" "$@""#;
/// Maximum time of a start on a busy machine.
const START: Duration = Duration::from_mins(1);

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The running example. It ends when it is dropped.
struct Running {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Running {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let address = format!("127.0.0.1:{}", controlplane::free_port().expect("a free port"));
        let mut command = Command::new("sh");
        command.args(["-c", SMALL_LIMIT]).arg(program()).arg(&address);
        let child = command.current_dir(&folder).spawn().expect("the example starts");
        Self { child, url: format!("http://{address}"), _folder: folder }
    }

    async fn ready(&self) {
        // The client wants one, also for plain text.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let deadline = Instant::now() + START;
        while !reqwest::get(format!("{}/readyz", self.url)).await.is_ok_and(|reply| reply.status() == 200) {
            assert!(Instant::now() < deadline, "the example is not ready in time");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns the example's program, which cargo builds together with the tests of the package.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let built = test.ancestors().nth(2).expect("the folder of the profile").join("examples/greetings");
    assert!(built.exists(), "run `cargo build -p machinery-example --examples` first");
    built
}

#[test]
fn the_readme_shows_the_program_of_the_example() {
    let readme = std::fs::read_to_string(folder().join("../README.md")).expect("the README");
    let program = std::fs::read_to_string(folder().join("examples/greetings.rs")).expect("the example");
    let shown =
        readme.split_once("```rust\n").and_then(|(_, rest)| rest.split_once("```")).expect("a program").0;
    assert_eq!(shown, program);
    assert!(program.lines().count() <= 80, "the program is short");
}

#[tokio::test]
async fn the_example_keeps_a_greeting_with_its_defaults() {
    let running = Running::start();
    running.ready().await;
    let path = format!("{}/apis/example.dev/v1/namespaces/default/greetings", running.url);
    let client = reqwest::Client::new();
    let hello = json!({"metadata": {"name": "hello"}, "text": "hello"});
    let reply = client.post(&path).json(&hello).send().await.expect("a reply");
    assert_eq!(reply.status(), 201);
    let reply: Value =
        client.get(format!("{path}/hello")).send().await.expect("a reply").json().await.expect("JSON");
    assert_eq!(
        (&reply["kind"], &reply["apiVersion"], &reply["language"]),
        (&json!("Greeting"), &json!("example.dev/v1"), &json!("en"))
    );
    let reply = client.post(&path).json(&json!({"metadata": {"name": "no"}, "text": ""})).send().await;
    assert_eq!(reply.expect("a reply").status(), 422);
}

/// # Attack
///
/// - Attacker: any pod of the cluster
/// - Act: opens more connections than the soft limit of open files allows, and sends nothing
/// - Promise: 8
#[tokio::test]
async fn a_server_may_open_as_many_files_as_its_hard_limit_allows() {
    let running = Running::start();
    running.ready().await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.child.id())).expect("its limits");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("the limit of files");
    let numbers: Vec<&str> = files.split_whitespace().skip(3).take(2).collect();
    assert!(numbers[0] == numbers[1] && numbers[0] != "200", "{files}");
}
