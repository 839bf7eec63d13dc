//! One request in progress.

use std::{
    cell::Cell,
    sync::{Arc, OnceLock},
};

use actix_web::HttpRequest;
use chrono::Utc;
use http::{HeaderMap, HeaderName, HeaderValue};
use machinery_apply::manager_from_user_agent;
use machinery_auth::UserInfo;
use rustls::pki_types::CertificateDer;

use super::{
    limiter::Permit, params::Params, render::Renderer, request_info::RequestInfo, write_options::WriteOptions,
};
use crate::{
    ApiError, RequestContext,
    context::SentOptions,
    http::{accept::negotiate, encoding::Encoding},
    metrics::GaugeGuard,
    resource::Resource,
    server::{Core, Served},
    status::Target,
};

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
    /// Set once the request is understood; its warnings are sent with the answer.
    context: OnceLock<Arc<RequestContext>>,
    /// Target of a failure, if it is not the object that the path names.
    target: OnceLock<Target>,
    slot: Cell<Option<Slot>>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(core: &'a Core, request: &'a HttpRequest, params: Params) -> Self {
        let info = RequestInfo::new(request.method().as_str(), request.path(), &params);
        Self {
            core,
            request,
            info,
            params,
            context: OnceLock::new(),
            target: OnceLock::new(),
            slot: Cell::default(),
        }
    }

    /// A header of the request; empty when it is absent or no text.
    pub(crate) fn header(&self, name: &str) -> &'a str {
        self.request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the headers in the types of the crate `http`, which the authenticators read.
    pub(crate) fn headers(&self) -> HeaderMap {
        let headers = self.request.headers().iter().filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_str().as_bytes()).ok()?;
            Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
        });
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value);
        }
        map
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

    /// Keeps a permit until the reply was sent.
    pub(crate) fn keep(&self, permit: Permit) {
        let gauge = self.core.metrics.in_flight(self.info.is_read());
        self.slot.set(Some(Slot { _permit: permit, _gauge: gauge }));
    }

    /// Takes the slot out, to free it earlier or to keep it longer.
    pub(crate) fn take_slot(&self) -> Option<Slot> {
        self.slot.take()
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
        let form = negotiate(self.header("accept"), &self.params)?.form;
        Ok(Renderer { resource, form, now: Utc::now() })
    }

    /// Encoding of the reply. JSON when the header `Accept` asks for nothing that is served: failures are
    /// JSON, too.
    pub(crate) fn encoding(&self) -> Encoding {
        let negotiated = negotiate(self.header("accept"), &self.params);
        let encoding = negotiated.map(|negotiated| negotiated.encoding).unwrap_or_default();
        encoding.for_reader(&self.params, self.header("user-agent"))
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
