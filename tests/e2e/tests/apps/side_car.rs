//! The side-car answers for an app that cannot be changed.

use evacuation_e2e::{App, PodSpec, Scene, scene::ASKER};
use std::path::{Path, PathBuf};

use controlplane::eventually;
use evacuation_api::{Answer, ResponderState};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::question::{MESSAGE, ask, ends};

/// The work of a test: a script with a log and a gate that it may wait for.
pub(crate) struct Script {
    folder: TempDir,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the script; `$log` and `$gate` are files of the test.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        let (log, gate) = (self.path("log"), self.path("gate"));
        let text = format!("log={}; gate={}\n{text}\n", log.display(), gate.display());
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn open_gate(&self) {
        std::fs::write(self.path("gate"), "").unwrap();
    }

    pub(crate) async fn logged(&self, text: &str) {
        let logged = eventually(std::time::Duration::from_mins(1), "the script's log", || async {
            let log = self.log();
            if log == text { Ok(()) } else { Err(log) }
        });
        logged.await.unwrap();
    }
}

/// Logs, and waits for the gate; says so when it is told to stop.
pub(crate) const WAITS: &str = "trap 'echo stopped >> $log; exit 1' TERM
echo $EVACUATION_EVENT >> $log
until [ -e $gate ]; do sleep 0.1; done
echo flushed";

async fn watched(scene: &Scene) -> Pod {
    scene.pod("app", PodSpec::watching()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_of_a_command_is_the_answer() {
    let scene = Scene::new("side-car-exit").await;
    let script = Script::new();
    let refuse = script.file(
        "refuse",
        // As for a terminal: a line that is drawn anew, in colour.
        r#"echo starting; printf '50 %%\r\033[1;31m%s\033[0m\r\n' "$EVACUATION_MESSAGE" >&2; exit 3"#,
    );
    let pod = watched(&scene).await;
    let agent = App::agent(scene.platform(), &pod, &["--exec", "sh", &refuse]).await.unwrap();
    let refused = ask(&scene, &pod, "GiveUp").await;
    let said = ends(&scene, &refused, "Failed Refused").await;
    assert_eq!((said.answer, said.message.as_deref()), (Some(Answer::Refuse), Some(MESSAGE)));
    assert!(scene.stays(&pod).await);
    drop(agent);

    // First "not yet", then done.
    let second = script.file(
        "second",
        "if [ -e $gate ]; then echo flushed; else touch $gate; echo copying >&2; echo 10; exit 75; fi",
    );
    let _agent = App::agent(scene.platform(), &pod, &["--exec", "sh", &second]).await.unwrap();
    let accepted = ask(&scene, &pod, "Wait").await;
    let delayed = scene.until_responder(&accepted, "a delay", |r| r.answer.is_some()).await;
    assert_eq!((delayed.answer, delayed.message.as_deref()), (Some(Answer::Delay), Some("copying")));
    let said = ends(&scene, &accepted, "Evacuated Evicted").await;
    assert_eq!((said.answer, said.message.as_deref()), (Some(Answer::Accept), Some("flushed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_platform_waits_while_the_command_runs() {
    let scene = Scene::new("side-car-hold").await;
    let script = Script::new();
    let work = script.file("work", WAITS);
    let pod = watched(&scene).await;
    let arguments = ["--hold", "10s", "--exec", "sh", &work];
    let agent = App::agent(scene.platform(), &pod, &arguments).await.unwrap();
    let evacuation = ask(&scene, &pod, "Wait").await;
    let first = scene.until_responder(&evacuation, "a delay", |r| r.delay_until.is_some()).await;
    let renewed =
        scene.until_responder(&evacuation, "a longer delay", |r| r.delay_until > first.delay_until).await;
    assert_eq!((renewed.state, renewed.answer), (ResponderState::Active, Some(Answer::Delay)));
    assert!(scene.stays(&pod).await);
    small(agent.process().pid().unwrap());
    script.open_gate();
    let said = ends(&scene, &evacuation, "Evacuated Evicted").await;
    assert_eq!((said.answer, said.message.as_deref()), (Some(Answer::Accept), Some("flushed")));
    assert_eq!(script.log(), "Ask\n");
}

/// Memory that the agent takes of its pod's. The pages of its program are many more in a build without
/// optimisation, so the bound of 10 MB for the whole holds for an optimised one.
fn small(pid: u32) {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).unwrap();
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let (peak, own) = (line("VmHWM:"), line("RssAnon:"));
    println!("the agent takes at most {peak} KiB, {own} KiB of them its own");
    if !cfg!(debug_assertions) {
        assert!(peak < 10_000, "{status}");
    }
    assert!(own < 4_000, "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_stops_the_command_and_undoes_it() {
    let scene = Scene::new("side-car-cancel").await;
    let script = Script::new();
    let work = script.file("work", WAITS);
    let undo = script.file("undo", "echo $EVACUATION_EVENT $EVACUATION_POD >> $log");
    let pod = watched(&scene).await;
    let arguments = ["--on-cancel", "sh", &undo, ";", "--exec", "sh", &work];
    let _agent = App::agent(scene.platform(), &pod, &arguments).await.unwrap();
    let evacuation = ask(&scene, &pod, "Wait").await;
    script.logged("Ask\n").await;
    scene.withdraw(&evacuation).await.unwrap();
    script.logged("Ask\nstopped\nCancel app\n").await;
    let known = scene
        .until_responder(&evacuation, "the cancellation is known", |r| r.cancellation_acknowledged)
        .await;
    assert_eq!(known.state, ResponderState::Canceled);
    assert!(scene.stays(&pod).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reply_of_a_local_url_is_the_answer() {
    let scene = Scene::new("side-car-url").await;
    let pod = watched(&scene).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/drain", listener.local_addr().unwrap());
    let _agent = App::agent(scene.platform(), &pod, &["--url", &url]).await.unwrap();
    let evacuation = ask(&scene, &pod, "GiveUp").await;
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
    }
    let request = String::from_utf8(request).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /drain HTTP/1.1"), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["event"], "Ask");
    assert_eq!(body["evacuation"]["pod"], "app");
    assert_eq!(body["evacuation"]["requesters"], json!([ASKER]));
    let reply = b"HTTP/1.1 409 Conflict\r\nContent-Length: 13\r\n\r\na backup runs";
    stream.write_all(reply).await.unwrap();
    let said = ends(&scene, &evacuation, "Failed Refused").await;
    assert_eq!(said.message.as_deref(), Some("a backup runs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_gives_no_answer_is_silence_unless_it_was_chosen_otherwise() {
    let scene = Scene::new("side-car-error").await;
    let pod = scene.pod("chosen", PodSpec::watching()).await;
    let arguments = ["--on-error", "refuse", "--exec", "/no/such/program"];
    let _agent = App::agent(scene.platform(), &pod, &arguments).await.unwrap();
    let said = ends(&scene, &ask(&scene, &pod, "GiveUp").await, "Failed Refused").await;
    let message = said.message.unwrap();
    assert!(message.starts_with("/no/such/program did not start"), "{message}");

    let quick = json!([{"name": "self", "timeoutSeconds": 2}]);
    let pod = scene.pod("silent", PodSpec::registered(&quick)).await;
    let _agent = App::agent(scene.platform(), &pod, &["--exec", "/no/such/program"]).await.unwrap();
    let said = ends(&scene, &ask(&scene, &pod, "GiveUp").await, "Evacuated Evicted").await;
    assert_eq!((said.state, said.answer), (ResponderState::Interrupted, None));
}
