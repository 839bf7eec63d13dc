//! An app that can move at any time: it stops taking work and accepts.
//!
//! Its pod carries the annotation `evacuation.dev/responders: '[{"name":"self"}]'`. Outside a pod, point
//! `KUBECONFIG` at a kubeconfig with a token that is bound to the pod: `kubectl create token SERVICEACCOUNT
//! --bound-object-kind Pod --bound-object-name POD`.

use evacuation_client::{Answer, Question, Responder};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let client = evacuation_client::connect().await?;
    Responder::of_pod(client)
        .run(|question: Question| async move {
            println!("asked by {}: accepting", question.wanted_by());
            Answer::accept()
        })
        .await;
    Ok(())
}
