//! The guide's HTTP handlers: the same app in each language.

use evacuation_e2e::{App, PodSpec, Scene, scene::ASKER};
use std::{process::Command, time::Duration};

use evacuation_api::{Answer, ResponderState};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;

use crate::languages::Language;

use crate::{
    question::{ask, ends},
    rehearsals::passes,
};

/// The first of the ports. Each app has its own, for the address of a pod that is gone may be given to
/// another pod while the first one's app still listens.
const PORTS: u16 = 8080;
/// A message that a writer of JSON may stumble over.
const WHY: &str = "a \"backup\" \\ läuft {[,]}";

/// Answer that a handler is told to give, and its outcome.
#[derive(Clone, Copy, Debug)]
enum Case {
    Accept,
    Delay,
    Refuse,
}

impl Case {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Accept => &["--answer", "Accept", "--message", WHY],
            Self::Delay => &["--answer", "Delay", "--delay", "20", "--message", WHY],
            Self::Refuse => &["--answer", "Refuse", "--retry-after", "2", "--message", WHY],
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handlers_of_all_languages_accept_delay_and_refuse() {
    let scene = Scene::new("handlers").await;
    join_all(Language::ALL.map(|language| speaks(&scene, language))).await;
}

async fn speaks(scene: &Scene, language: Language) {
    let folder = tempfile::tempdir().unwrap();
    let words = language.build(folder.path()).await;
    let cases = [Case::Accept, Case::Delay, Case::Refuse].map(|case| {
        let words = &words;
        async move {
            let port = PORTS + 3 * language as u16 + case as u16;
            let name = format!("{language:?}-{case:?}").to_lowercase();
            let pod = scene.pod(&name, PodSpec::pushed(port)).await;
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            let app = App::handler(scene.platform(), &pod, command, port, case.arguments()).await;
            honoured(scene, case, &pod, &app.unwrap()).await;
        }
    });
    join_all(cases).await;
}

async fn honoured(scene: &Scene, case: Case, pod: &Pod, app: &App) {
    let evacuation = ask(scene, pod, "Wait").await;
    app.says(&format!("Ask by {ASKER}")).await.unwrap();
    match case {
        Case::Accept => {
            let said = ends(scene, &evacuation, "Evacuated Evicted").await;
            assert_eq!((said.answer, said.message.as_deref()), (Some(Answer::Accept), Some(WHY)));
        }
        Case::Delay => {
            let said = scene.until_responder(&evacuation, "a delay", |r| r.delay_until.is_some()).await;
            assert_eq!((said.answer, said.message.as_deref()), (Some(Answer::Delay), Some(WHY)));
            let time = said.delay_until.unwrap().0 - said.answer_time.unwrap().0;
            assert_eq!(time.to_std().unwrap(), Duration::from_secs(20));
            canceled(scene, &evacuation, pod, app).await;
            let shown = ["self: Delay of 20 s after", WHY, "self: knows that it is over", "passed: "];
            passes(scene, pod, &shown).await;
            app.says("Ask by kubectl.evacuation.dev/admin (a rehearsal)").await.unwrap();
        }
        Case::Refuse => {
            let said = scene.until_responder(&evacuation, "a refusal", |r| r.answer.is_some()).await;
            assert_eq!((said.answer, said.message.as_deref()), (Some(Answer::Refuse), Some(WHY)));
            app.says(&format!("Remind by {ASKER}")).await.unwrap();
            canceled(scene, &evacuation, pod, app).await;
        }
    }
}

async fn canceled(scene: &Scene, evacuation: &evacuation_api::Evacuation, pod: &Pod, app: &App) {
    scene.withdraw(evacuation).await.unwrap();
    app.says("Cancel by").await.unwrap();
    let known =
        scene.until_responder(evacuation, "the cancellation is known", |r| r.cancellation_acknowledged).await;
    assert_eq!(known.state, ResponderState::Canceled);
    assert!(scene.stays(pod).await);
}
