//! One request in progress.

use std::{
    cell::{Cell, RefCell},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use actix_web::{HttpRequest, web};
use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use machinery_apply::manager_from_user_agent;
use machinery_audit::AuditAnnotations;
use machinery_auth::UserInfo;
use machinery_tracing::Span;
use rustls::pki_types::CertificateDer;

use super::{
    fairness::Permit, params::Params, render::Renderer, request_info::RequestInfo, spans, trail::Trail,
    websocket, write_options::WriteOptions,
};
use crate::{
    ApiError, Reason, RequestContext,
    context::SentOptions,
    http::{
        accept::{Negotiated, failure_encoding, negotiate},
        encoding::Encoding,
    },
    metrics::GaugeGuard,
    resource::Resource,
    server::{Core, Served},
    status::Target,
};

/// Header of a list or watch about objects that cannot be read, and its only value.
const UNREADABLE_OBJECTS: &str = "unreadable-objects";
const SKIP: &str = "skip";

/// The certificates that the client of a connection presented, its own first.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerCertificates(pub(crate) Vec<CertificateDer<'static>>);

/// Slot of a request among those in progress, and its place in the metric.
#[derive(Debug)]
pub(crate) struct Slot {
    _permit: Permit,
    _gauge: GaugeGuard,
}

/// One request in progress.
pub(crate) struct Exchange<'a> {
    pub(crate) core: &'a Core,
    pub(crate) request: &'a HttpRequest,
    pub(crate) info: RequestInfo,
    pub(crate) params: Params,
    /// Time at which the request arrived.
    pub(crate) received: DateTime<Utc>,
    /// Value of the header `Audit-Id`.
    pub(crate) audit_id: String,
    /// Annotations of the audit events.
    pub(crate) annotations: AuditAnnotations,
    /// Set once the request is understood; its warnings are sent with the answer.
    context: OnceLock<Arc<RequestContext>>,
    /// Target of a failure, if it is not the object that the path names.
    target: OnceLock<Target>,
    slot: Cell<Option<Slot>>,
    /// Bytes of the client after the head of the request.
    payload: Cell<Option<web::Payload>>,
    /// Time until which the request may wait for slots.
    waits_until: Cell<Option<Instant>>,
    /// True once the caller is known.
    is_authenticated: Cell<bool>,
    /// Absent before authentication, and when nothing is traced.
    span: OnceLock<Arc<Span>>,
    /// Absent before authentication, and when the request is not recorded.
    trail: RefCell<Option<Trail>>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(
        core: &'a Core,
        request: &'a HttpRequest,
        params: Params,
        payload: web::Payload,
        audit_id: String,
    ) -> Self {
        let info = RequestInfo::new(request.method().as_str(), request.path(), &params);
        Self {
            core,
            request,
            info,
            params,
            received: Utc::now(),
            audit_id,
            annotations: AuditAnnotations::default(),
            context: OnceLock::new(),
            target: OnceLock::new(),
            slot: Cell::default(),
            payload: Cell::new(Some(payload)),
            waits_until: Cell::default(),
            is_authenticated: Cell::default(),
            span: OnceLock::new(),
            trail: RefCell::default(),
        }
    }

    /// A header of the request; empty when it is absent or no text.
    pub(crate) fn header(&self, name: &str) -> &'a str {
        self.request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns true when the caller asks for lists and watches without the objects that cannot be read. It is
    /// a header, because the caller's program must be able to do without them, whoever runs it.
    pub(crate) fn skips_unreadable(&self) -> bool {
        self.header(UNREADABLE_OBJECTS) == SKIP
    }

    /// Returns the headers in the types of the crate `http`, which the authenticators read. A bearer token
    /// that a browser sends as a subprotocol of a WebSocket becomes the header `Authorization`, if there is
    /// none.
    ///
    /// # Errors
    ///
    /// `Unauthorized` when that token cannot be read.
    pub(crate) fn headers(&self) -> Result<HeaderMap, ApiError> {
        let headers = self.request.headers().iter().filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_str().as_bytes()).ok()?;
            Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
        });
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value);
        }
        if self.is_websocket()
            && !map.contains_key(AUTHORIZATION)
            && let Some(token) = websocket::bearer_token(self.request.headers())?
        {
            let value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| ApiError::status(Reason::Unauthorized, "Unauthorized"))?;
            map.insert(AUTHORIZATION, value);
        }
        Ok(map)
    }

    /// True if the client asks for a WebSocket.
    pub(crate) fn is_websocket(&self) -> bool {
        websocket::is_upgrade(self.request.headers())
    }

    /// Takes the bytes after the head of the request out, once.
    pub(crate) fn take_payload(&self) -> Option<web::Payload> {
        self.payload.take()
    }

    /// The network address of the client; empty when it is not known.
    pub(crate) fn address(&self) -> String {
        self.request.peer_addr().map(|address| address.ip().to_string()).unwrap_or_default()
    }

    /// Maximum size of the body: what the client announces, and `limit` when it announces nothing.
    pub(crate) fn body_size(&self, limit: usize) -> usize {
        if !self.header("transfer-encoding").is_empty() {
            return limit;
        }
        self.header("content-length").parse().unwrap_or(0).min(limit)
    }

    /// Sets the time that the request may take. It waits for slots in the first quarter of it.
    pub(crate) fn set_timeout(&self, timeout: Duration) {
        self.waits_until.set(Instant::now().checked_add(timeout / 4));
    }

    /// Returns the time for which the request may still wait for slots.
    pub(crate) fn patience(&self) -> Duration {
        self.waits_until.get().map(|end| end.saturating_duration_since(Instant::now())).unwrap_or_default()
    }

    /// Keeps a permit until the reply was sent.
    pub(crate) fn keep(&self, permit: Permit) {
        let gauge = self.core.metrics.in_flight(self.info.is_read());
        self.slot.set(Some(Slot { _permit: permit, _gauge: gauge }));
    }

    /// Takes the slot out, to free it earlier or to keep it longer.
    pub(crate) fn take_slot(&self) -> Option<Slot> {
        self.slot.take()
    }

    /// Notes that the caller is known.
    pub(crate) fn authenticated(&self) {
        self.is_authenticated.set(true);
    }

    /// Returns true when the caller is known.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.is_authenticated.get()
    }

    /// Starts the span of the request of that user, if requests are traced.
    pub(crate) fn trace(&self, user: &UserInfo) {
        if let Some(traces) = &self.core.traces {
            let _ = self.span.set(Arc::new(spans::request(self, traces, user)));
        }
    }

    /// The span of the request.
    pub(crate) fn span(&self) -> Option<Arc<Span>> {
        self.span.get().cloned()
    }

    /// Starts to audit the request of that user. Without one, the caller could not be authenticated.
    ///
    /// # Errors
    ///
    /// The first event could not be recorded, and requests that are not recorded must fail.
    pub(crate) async fn audit(&self, user: Option<&UserInfo>) -> Result<(), ApiError> {
        let mut trail = Trail::start(self, user);
        let first = trail.as_mut().and_then(Trail::received);
        self.trail.replace(trail);
        let Some((auditor, event)) = first else { return Ok(()) };
        auditor.begin(event).await.map_err(|source| ApiError::internal("storing the audit event", source))
    }

    /// Notes something in the audit events, if the request is recorded.
    pub(crate) fn note(&self, note: impl FnOnce(&mut Trail)) {
        if let Some(trail) = self.trail.borrow_mut().as_mut() {
            note(trail);
        }
    }

    /// Takes the audit events out, to end them.
    pub(crate) fn take_trail(&self) -> Option<Trail> {
        self.trail.take()
    }

    /// The client's certificates.
    pub(crate) fn peer(&self) -> &'a [CertificateDer<'static>] {
        self.request.conn_data::<PeerCertificates>().map(|peer| peer.0.as_slice()).unwrap_or_default()
    }

    /// The resource that the path names, if it is served.
    pub(crate) fn served(&self) -> Option<&'a Served> {
        let request = self.info.resource.as_ref()?;
        self.core.find(&request.group, &request.version, &request.resource)
    }

    /// Creates the context for the strategies. Called once.
    pub(crate) fn enter(&self, user: UserInfo, options: &WriteOptions) -> Arc<RequestContext> {
        let resource = self.info.resource.clone().unwrap_or_default();
        let user_agent = self.header("user-agent").to_owned();
        let field_manager = if options.field_manager.is_empty() {
            manager_from_user_agent(&user_agent)
        } else {
            options.field_manager.clone()
        };
        let context = RequestContext {
            operation: self.info.operation(),
            version: resource.version,
            subresource: resource.subresource,
            dry_run: options.dry_run,
            sent: SentOptions {
                patch: options.patch,
                force: options.force,
                names_manager: !options.field_manager.is_empty(),
                field_validation: self.params.get("fieldValidation").map(str::to_owned),
            },
            field_manager,
            user_agent,
            audit: self.annotations.clone(),
            ..RequestContext::new(user, resource.namespace, Utc::now())
        };
        self.context.get_or_init(|| Arc::new(context)).clone()
    }

    /// The warnings for the caller.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.context.get().map(|context| context.warnings.all()).unwrap_or_default()
    }

    /// Renders the resource in the form that the caller accepts.
    pub(crate) fn renderer<'r>(&self, resource: &'r dyn Resource) -> Result<Renderer<'r>, ApiError> {
        let Negotiated { form, encoding } = negotiate(self.header("accept"), &self.params)?;
        Ok(Renderer { resource, form, encoding, now: Utc::now() })
    }

    /// Encoding of the reply. JSON when the header `Accept` asks for nothing that is served.
    pub(crate) fn encoding(&self) -> Encoding {
        let negotiated = negotiate(self.header("accept"), &self.params);
        let encoding = negotiated.map(|negotiated| negotiated.encoding).unwrap_or_default();
        encoding.for_reader(&self.params, self.header("user-agent"))
    }

    /// Encoding of a failure.
    pub(crate) fn failure_encoding(&self) -> Encoding {
        failure_encoding(self.header("accept")).for_reader(&self.params, self.header("user-agent"))
    }

    /// True if the client wants only the headers of the reply.
    pub(crate) fn is_head(&self) -> bool {
        self.request.method() == actix_web::http::Method::HEAD
    }

    /// Sets the target of a failure, in place of the object that the path names.
    pub(crate) fn retarget(&self, target: Target) {
        let _ = self.target.set(target);
    }

    /// Returns the target of a failure.
    pub(crate) fn target(&self) -> Target {
        if let Some(target) = self.target.get() {
            return target.clone();
        }
        let Some(request) = &self.info.resource else {
            return Target::default();
        };
        Target {
            group: request.group.clone(),
            kind: self.served().map(|served| served.resource.name().kind.clone()).unwrap_or_default(),
            resource: request.resource.clone(),
            name: request.name.clone(),
        }
    }
}
