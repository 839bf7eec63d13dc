//! The guide's watchers: the same app in each language, with its own HTTP requests.

use std::{path::PathBuf, process::Command};

use controlplane::Process;
use evacuation_api::{Answer, Evacuation, ResponderState};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Scene,
    scene::{ASKER, PATIENCE, responder_named},
};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tempfile::TempDir;

use crate::{languages::Language, mounted::Mounted, rehearsals::passes};

/// The app of a pod, in some language.
struct Watcher {
    pod: Pod,
    process: Process,
    /// The app is busy while it exists.
    busy: PathBuf,
    _folder: TempDir,
}

impl Watcher {
    /// Starts the app with a token that has expired, and replaces the token when the app has seen that. It
    /// delays for so many seconds.
    async fn start(scene: &Scene, language: Language, delay: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let words = language.watcher(folder.path()).await;
        let name = format!("{language:?}").to_lowercase();
        let pod = scene.pod(&name, PodSpec::watching()).await;
        let mounted = Mounted::new(scene, &pod);
        mounted.break_token();
        let busy = folder.path().join("busy");
        std::fs::write(&busy, "").unwrap();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("--delay").arg(delay.to_string()).arg("--busy-file").arg(&busy);
        command.envs(mounted.environment(scene));
        let logs = scene.control_plane().logs();
        let process = Process::spawn(format!("watcher-{name}"), command, &logs).unwrap();
        process.wait_for_log(PATIENCE, "401").await.unwrap();
        mounted.renew_token(scene, &pod).await;
        Self { pod, process, busy, _folder: folder }
    }

    async fn delays_until_the_request_is_canceled(&self, scene: &Scene) {
        let evacuation = scene.ask(&self.pod, json!({})).await;
        let asked = format!("asked by {ASKER}");
        self.process.wait_for_log(PATIENCE, &asked).await.unwrap();
        let first = scene.until_responder(&evacuation, "a delay", |r| r.delay_until.is_some()).await;
        assert_eq!((first.answer, first.message.as_deref()), (Some(Answer::Delay), Some("finishing a job")));
        let renewed = |r: &evacuation_api::ResponderStatus| r.delay_until > first.delay_until;
        scene.until_responder(&evacuation, "the delay is renewed", renewed).await;
        scene.withdraw(&evacuation).await.unwrap();
        let known = scene.acknowledged(&evacuation).await;
        assert_eq!(known.state, ResponderState::Canceled);
        assert!(scene.stays(&self.pod).await);
        passes(scene, &self.pod, &["self: Delay of 3 s after", "finishing a job", "passed: "]).await;
        let rehearsed = "asked by kubectl.evacuation.dev/admin (a rehearsal)";
        self.process.wait_for_log(PATIENCE, rehearsed).await.unwrap();
    }

    async fn accepts_when_its_work_is_done(&self, scene: &Scene) {
        let evacuation = self.delays(scene).await;
        std::fs::remove_file(&self.busy).unwrap();
        self.has_accepted(scene, &evacuation).await;
    }

    async fn delays(&self, scene: &Scene) -> Evacuation {
        let evacuation = scene.ask(&self.pod, json!({})).await;
        scene.until_responder(&evacuation, "a delay", |r| r.answer == Some(Answer::Delay)).await;
        evacuation
    }

    async fn has_accepted(&self, scene: &Scene, evacuation: &Evacuation) {
        let ended = scene.ends(evacuation, "Evacuated Evicted").await;
        assert_eq!(responder_named(&ended, "self").answer, Some(Answer::Accept));
        self.process.wait_for_log(PATIENCE, "accepted").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watchers_of_all_languages_delay_accept_and_survive_an_expired_token_and_a_new_server() {
    let scene = Scene::alone("watchers", PlatformOptions::default()).await;
    let watchers = join_all(Language::ALL.map(|language| Watcher::start(&scene, language, 3))).await;
    join_all(watchers.iter().map(|watcher| watcher.delays_until_the_request_is_canceled(&scene))).await;
    let server = scene.platform().apiserver();
    let marks: Vec<_> = watchers.iter().map(|watcher| watcher.process.mark().unwrap()).collect();
    server.kill().unwrap();
    // Their watches break while nobody serves.
    for (watcher, mark) in watchers.iter().zip(marks) {
        watcher.process.wait_for_log_since(PATIENCE, mark, "the watch failed: ").await.unwrap();
    }
    server.start().unwrap();
    scene.platform().available().await.unwrap();
    join_all(watchers.iter().map(|watcher| watcher.accepts_when_its_work_is_done(&scene))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_watchers_of_all_languages_give_while_the_api_is_not_registered_arrives_later() {
    let scene = Scene::alone("unregistered", PlatformOptions::default()).await;
    let watchers = join_all(Language::ALL.map(|language| Watcher::start(&scene, language, 600))).await;
    let evacuations = join_all(watchers.iter().map(|watcher| watcher.delays(&scene))).await;
    let service = scene.platform().unregister().await.unwrap();
    for watcher in &watchers {
        std::fs::remove_file(&watcher.busy).unwrap();
        watcher.process.wait_for_log(PATIENCE, "not answered: ").await.unwrap();
    }
    scene.platform().register(service).await.unwrap();
    for (watcher, evacuation) in watchers.iter().zip(&evacuations) {
        watcher.has_accepted(&scene, evacuation).await;
    }
}
