//! The apps under measurement: they note when they are asked, and accept at once.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use actix_web::{App, HttpResponse, HttpServer, web};
use anyhow::Context;
use evacuation_api::{Answer as Word, EvacuationReview, ReviewResponse};
use evacuation_client::{Answer, Question, Responder};
use evacuation_e2e::{Platform, pod_client};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use tokio_util::sync::CancellationToken;

/// Time of the first question to each Evacuation's app, by the Evacuation's name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked(Arc<Mutex<HashMap<String, Timestamp>>>);

impl Asked {
    fn note(&self, evacuation: &str) {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.entry(evacuation.to_owned()).or_insert_with(Timestamp::now);
    }

    pub(crate) fn all(&self) -> HashMap<String, Timestamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers for a pod by watching, until the token is cancelled.
pub(crate) async fn watch(
    platform: &Platform,
    pod: &Pod,
    asked: &Asked,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let responder = Responder::of_pod(pod_client(platform, pod).await?).until(stop.clone());
    let asked = asked.clone();
    tokio::spawn(responder.run(move |question: Question| {
        asked.note(question.name());
        async { Answer::accept() }
    }));
    Ok(())
}

/// Answers for pods over HTTP, on their IPs, until the token is cancelled.
pub(crate) fn push(pods: &[Pod], port: u16, asked: &Asked, stop: &CancellationToken) -> anyhow::Result<()> {
    let asked = asked.clone();
    let mut server = HttpServer::new(move || {
        App::new().app_data(web::Data::new(asked.clone())).route("/evacuation", web::post().to(reply))
    })
    .workers(1)
    .disable_signals();
    for pod in pods {
        let ip =
            pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).context("a pod has no IP")?;
        server = server.bind((ip.parse::<IpAddr>()?, port))?;
    }
    let server = server.run();
    let handle = server.handle();
    tokio::spawn(server);
    let stop = stop.clone();
    tokio::spawn(async move {
        stop.cancelled().await;
        handle.stop(false).await;
    });
    Ok(())
}

async fn reply(asked: web::Data<Asked>, review: web::Json<EvacuationReview>) -> HttpResponse {
    let mut review = review.into_inner();
    let Some(request) = review.request.take() else {
        return HttpResponse::BadRequest().finish();
    };
    asked.note(&request.evacuation.name);
    review.response = Some(ReviewResponse {
        evacuation_uid: request.evacuation.uid,
        pod_uid: request.pod.uid,
        answer: Word::Accept,
        delay_seconds: None,
        retry_after_seconds: None,
        reason: None,
        message: None,
    });
    HttpResponse::Ok().json(review)
}
