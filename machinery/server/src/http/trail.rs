//! The audit events of one request. Source of the rules:
//! `k8s.io/apiserver/pkg/endpoints/filters/audit.go` and `k8s.io/apiserver/pkg/audit/request.go`.

use std::net::IpAddr;

use bytes::Bytes;
use chrono::Utc;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use machinery_audit::{
    AuditAnnotations, Body, Decision, Event, Level, ObjectReference, ResponseStatus, Stage, User,
};
use machinery_auth::{Attributes, UserInfo};
use machinery_merge::parse_yaml;
use serde::Deserialize;

use super::{exchange::Exchange, render, reply::Reply};
use crate::{ApiError, audit::Auditor, resource::Syntax, status::status};

/// Maximum length of a recorded `User-Agent`, and the mark of a longer one.
const USER_AGENT: usize = 1024;
const TRUNCATED: &str = "...TRUNCATED";
/// Code of a request whose client left before the reply, as proxies log it.
const CLIENT_LEFT: u16 = 499;

/// The audit events of one request that the policy records.
///
/// A trail that is dropped before its end means that the client has left. That is recorded, too.
pub(crate) struct Trail {
    auditor: Auditor,
    event: Event,
    omit_stages: Vec<Stage>,
    annotations: AuditAnnotations,
    progress: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The caller is not authenticated. Only its failure is recorded.
    Unauthenticated,
    /// The request is being served.
    Serving,
    /// Serving it panicked.
    Panicked,
    /// The events of a watch are being sent.
    Streaming,
    /// Everything is recorded.
    Ended,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    metadata: NamedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NamedMetadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
}

impl Trail {
    /// Starts the trail of a request, if the policy records it. Without a user, the caller could not be
    /// authenticated.
    pub(crate) fn start(exchange: &Exchange<'_>, user: Option<&UserInfo>) -> Option<Self> {
        let auditor = exchange.core.auditor.clone()?;
        let attributes = exchange.info.attributes(user.cloned().unwrap_or_default());
        let Decision { level, omit_stages, omit_managed_fields } = auditor.decide(&attributes);
        if level == Level::None {
            return None;
        }
        let event = Event {
            level,
            audit_id: exchange.audit_id.as_str().into(),
            request_uri: exchange.request.uri().path_and_query().map_or("", |uri| uri.as_str()).into(),
            verb: attributes.verb.as_str().into(),
            user: User::from(&attributes.user).into(),
            source_ips: source_ips(exchange).into(),
            user_agent: truncated(exchange.header("user-agent")).into(),
            object_ref: object_reference(&attributes),
            omit_managed_fields,
            received: exchange.received,
            ..Event::default()
        };
        let progress = if user.is_some() { Progress::Serving } else { Progress::Unauthenticated };
        Some(Self { auditor, event, omit_stages, annotations: exchange.annotations.clone(), progress })
    }

    /// Returns the event of the stage `RequestReceived`, if it is recorded.
    pub(crate) fn received(&mut self) -> Option<(Auditor, Event)> {
        let recorded = self.progress == Progress::Serving;
        let event = recorded.then(|| self.at(Stage::RequestReceived)).flatten()?;
        Some((self.auditor.clone(), Event { at: event.received, ..event }))
    }

    /// Notes the body of the request.
    pub(crate) fn request(&mut self, verb: &str, syntax: Syntax, bytes: &Bytes) {
        let Some(object_ref) = self.event.object_ref.as_mut().filter(|_| !bytes.is_empty()) else { return };
        let body = match syntax {
            Syntax::Json => Body::Json(bytes.clone()),
            Syntax::Yaml => Body::Yaml(bytes.clone()),
        };
        if matches!(verb, "create" | "update") {
            let Named { metadata } = named(&body).unwrap_or_default();
            let fields = [
                (&mut object_ref.name, metadata.name),
                (&mut object_ref.namespace, metadata.namespace),
                (&mut object_ref.uid, metadata.uid),
                (&mut object_ref.resource_version, metadata.resource_version),
            ];
            for (field, value) in fields.into_iter().filter(|(field, _)| field.is_empty()) {
                *field = value;
            }
        }
        if self.event.level >= Level::Request {
            self.event.request_object = Some(body);
        }
    }

    /// Notes that serving the request panicked.
    pub(crate) fn panicked(&mut self) {
        self.progress = Progress::Panicked;
    }

    /// Notes the reply.
    pub(crate) fn reply(&mut self, result: Result<&Reply, &ApiError>, exchange: &Exchange<'_>) {
        let (status, object) = match result {
            Ok(Reply::Json(code, body)) => {
                let deleted =
                    (&*self.event.verb == "delete").then(|| serde_json::from_slice::<Status>(body).ok());
                let status = match deleted.flatten() {
                    Some(status) => ResponseStatus::of_status(status, code.as_u16()),
                    None => ResponseStatus::of_code(code.as_u16()),
                };
                (status, Some(body.clone()))
            }
            Ok(reply) => (ResponseStatus::of_code(reply.code().as_u16()), None),
            Err(error) => {
                let (status, code) = (status(error, &exchange.target()), error.code());
                let object = render::json(&status).ok();
                (ResponseStatus::of_status(status, code), object)
            }
        };
        self.event.response_status = Some(status);
        if self.event.level >= Level::RequestResponse && self.event.object_ref.is_some() {
            self.event.response_object = object.map(Body::Json);
        }
        if matches!(result, Ok(Reply::Watch { .. })) && self.progress == Progress::Serving {
            self.progress = Progress::Streaming;
        }
    }

    /// Notes that the connection has become a WebSocket with the events of a watch.
    pub(crate) fn upgraded(&mut self, code: u16) {
        self.event.response_status = Some(ResponseStatus::of_code(code));
        if self.progress == Progress::Serving {
            self.progress = Progress::Streaming;
        }
    }

    /// Records the end of the request, or of a watch the start of its reply.
    pub(crate) async fn finish(&mut self) {
        let (stage, then) = match self.progress {
            Progress::Unauthenticated => (Stage::ResponseStarted, Progress::Ended),
            Progress::Serving => (Stage::ResponseComplete, Progress::Ended),
            Progress::Panicked => (Stage::Panic, Progress::Ended),
            Progress::Streaming => (Stage::ResponseStarted, Progress::Streaming),
            Progress::Ended => return,
        };
        // Before the wait: a request that is dropped now was recorded.
        self.progress = then;
        if let Some(event) = self.at(stage) {
            self.auditor.record(event).await;
        }
    }

    /// Returns the event of a stage, unless the policy leaves it out.
    fn at(&self, stage: Stage) -> Option<Event> {
        let recorded = !self.omit_stages.contains(&stage);
        let annotations = || self.annotations.all();
        recorded.then(|| Event { stage, at: Utc::now(), annotations: annotations(), ..self.event.clone() })
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        match self.progress {
            Progress::Ended => return,
            Progress::Streaming => {}
            Progress::Unauthenticated | Progress::Serving | Progress::Panicked => {
                let status = ResponseStatus::failure(CLIENT_LEFT, None, "Connection closed early");
                self.event.response_status = Some(status);
            }
        }
        if let Some(event) = self.at(Stage::ResponseComplete) {
            self.auditor.offer(event);
        }
    }
}

fn named(body: &Body) -> Option<Named> {
    match body {
        Body::Json(bytes) => serde_json::from_slice(bytes).ok(),
        Body::Yaml(bytes) => Named::deserialize(parse_yaml(bytes).ok()?.value).ok(),
    }
}

fn object_reference(attributes: &Attributes) -> Option<ObjectReference> {
    let resource = attributes.resource.clone()?;
    Some(ObjectReference {
        resource: resource.resource,
        namespace: resource.namespace,
        name: resource.name,
        api_group: resource.group,
        api_version: resource.version,
        subresource: resource.subresource,
        ..ObjectReference::default()
    })
}

/// Returns the addresses that the proxies name, and then that of the connection.
fn source_ips(exchange: &Exchange<'_>) -> Vec<String> {
    let parse = |text: &str| text.trim().parse::<IpAddr>().ok();
    let mut addresses: Vec<IpAddr> =
        exchange.header("x-forwarded-for").split(',').filter_map(parse).collect();
    addresses.extend(parse(exchange.header("x-real-ip")).filter(|address| !addresses.contains(address)));
    let remote = exchange.request.peer_addr().map(|address| address.ip().to_canonical());
    addresses.extend(remote.filter(|address| addresses.last() != Some(address)));
    addresses.iter().map(ToString::to_string).collect()
}

fn truncated(user_agent: &str) -> String {
    if user_agent.len() <= USER_AGENT {
        return user_agent.to_owned();
    }
    // A header value that is text is ASCII.
    format!("{}{TRUNCATED}", user_agent.get(..USER_AGENT).unwrap_or_default())
}
