//! One request on its way.

use std::sync::{Arc, OnceLock};

use actix_web::HttpRequest;
use chrono::Utc;
use http::{HeaderMap, HeaderName, HeaderValue};
use machinery_auth::UserInfo;
use rustls::pki_types::CertificateDer;

use super::{params::Params, render::Renderer, request_info::RequestInfo};
use crate::{
    ApiError, RequestContext, Warnings,
    http::accept::negotiate,
    resource::Resource,
    server::{Core, Served},
    status::Target,
};

/// The certificates that the client of a connection presented, its own first.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerCertificates(pub(crate) Vec<CertificateDer<'static>>);

/// One request on its way.
pub(crate) struct Exchange<'a> {
    pub(crate) core: &'a Core,
    pub(crate) request: &'a HttpRequest,
    pub(crate) info: RequestInfo,
    pub(crate) params: Params,
    /// Set once the request is understood; its warnings are sent with the answer.
    context: OnceLock<Arc<RequestContext>>,
    /// What a failure is about, when it is not what the path names.
    target: OnceLock<Target>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(core: &'a Core, request: &'a HttpRequest, params: Params) -> Self {
        let info = RequestInfo::new(request.method().as_str(), request.path(), &params);
        Self { core, request, info, params, context: OnceLock::new(), target: OnceLock::new() }
    }

    /// A header of the request; empty when it is absent or no text.
    pub(crate) fn header(&self, name: &str) -> &'a str {
        self.request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The headers in the types of the crate `http`, which the authenticators read.
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

    /// The client's certificates.
    pub(crate) fn peer(&self) -> &'a [CertificateDer<'static>] {
        self.request.conn_data::<PeerCertificates>().map(|peer| peer.0.as_slice()).unwrap_or_default()
    }

    /// The resource that the path names, if it is served.
    pub(crate) fn served(&self) -> Option<&'a Served> {
        let request = self.info.resource.as_ref()?;
        self.core.find(&request.group, &request.version, &request.resource)
    }

    /// What the strategies are told of the request. Called once.
    pub(crate) fn enter(&self, user: UserInfo, dry_run: bool) -> Arc<RequestContext> {
        let namespace =
            self.info.resource.as_ref().map(|resource| resource.namespace.clone()).unwrap_or_default();
        let context =
            RequestContext { user, namespace, now: Utc::now(), dry_run, warnings: Warnings::default() };
        self.context.get_or_init(|| Arc::new(context)).clone()
    }

    /// The warnings for the caller.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.context.get().map(|context| context.warnings.all()).unwrap_or_default()
    }

    /// Renders the resource in the form that the caller accepts.
    pub(crate) fn renderer<'r>(&self, resource: &'r dyn Resource) -> Result<Renderer<'r>, ApiError> {
        let form = negotiate(self.header("accept"), &self.params)?;
        Ok(Renderer { resource, form, now: Utc::now() })
    }

    /// A failure is about this instead of what the path names.
    pub(crate) fn retarget(&self, target: Target) {
        let _ = self.target.set(target);
    }

    /// What a failure is about.
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
