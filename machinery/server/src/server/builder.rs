//! Assembly of a server.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use machinery_audit::{AuditLog, Policy};
use machinery_auth::{Authenticator, Authorizer};
use machinery_openapi::{DocumentError, Documents, Info};
use machinery_storage::Store;
use machinery_tracing::Traces;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    Server, ServerOptions,
    core::{Core, Served, StandingWarning},
    described, scale_paths,
    write_probe::WriteProbe,
};
use crate::{
    Action, Admission, Metrics, Namespaces, Registry, Strategy, View,
    audit::Auditor,
    http::{Limiters, Rendered},
    resource::{Posted, PostedAction, Resource, StoredResource, ViewResource},
};

/// Reason that a server cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A required part is missing.
    #[error("the server has no {0}")]
    Missing(&'static str),
    /// An action belongs to a resource that does not exist, or to resources of two groups.
    #[error("action {action} belongs to {plural}, which is the name of resources of {found} groups")]
    ActionOnNothing {
        /// The action.
        action: &'static str,
        /// Plural of the resource that it belongs to.
        plural: String,
        /// Number of groups with a resource of that name.
        found: usize,
    },
    /// Two resources have the same group, version and plural.
    #[error("resource {0} is served twice")]
    Twice(String),
    /// Objects of a resource would be stored in a version that is not served.
    #[error("resource {resource} is stored in version {version}, which is not served")]
    Unserved {
        /// The resource.
        resource: String,
        /// The version, such as `v1`.
        version: String,
    },
    /// A path of a kind's scale is no field of that type in the schema of a version.
    #[error("{resource} {version}: the path {path:?} of the scale is no {expected} below {parts}")]
    ScalePath {
        /// The resource.
        resource: String,
        /// The version, such as `v1`.
        version: String,
        /// The path.
        path: &'static str,
        /// Type that the field must have.
        expected: &'static str,
        /// Parts of the object that the field must be below.
        parts: String,
    },
    /// The documents cannot be generated from the resources. An invalid keyword of a kind's schema, such as a
    /// pattern, is such a reason; the source names the kind and the field.
    #[error("the documents cannot be made")]
    Documents(#[from] DocumentError),
}

/// Builder of a server.
#[must_use]
pub struct ServerBuilder {
    options: ServerOptions,
    resources: Vec<Arc<dyn Resource>>,
    actions: Vec<(String, Arc<dyn Posted>)>,
    authenticator: Option<Arc<dyn Authenticator>>,
    authorizer: Option<Arc<dyn Authorizer>>,
    namespaces: Option<Arc<dyn Namespaces>>,
    metrics: Metrics,
    write_probe: Option<WriteProbe>,
    standing_warning: Option<StandingWarning>,
    audit: Option<(Policy, Arc<AuditLog>)>,
    traces: Option<Traces>,
    admission: Option<Arc<dyn Admission>>,
    /// First reason for which a kind cannot be served.
    refused: Option<BuildError>,
}

impl ServerBuilder {
    pub(super) fn new(options: ServerOptions) -> Self {
        Self {
            options,
            resources: Vec::new(),
            actions: Vec::new(),
            authenticator: None,
            authorizer: None,
            namespaces: None,
            metrics: Metrics::new(),
            write_probe: None,
            standing_warning: None,
            audit: None,
            traces: None,
            admission: None,
            refused: None,
        }
    }

    /// Serves a stored kind, in all its versions.
    #[expect(clippy::needless_pass_by_value, reason = "each resource shares the registry, as for a view")]
    pub fn resource<S: Strategy>(mut self, registry: Arc<Registry<S>>) -> Self {
        self.refused = self.refused.or_else(|| scale_paths::check(&registry).err());
        self.resources.extend(StoredResource::all(&registry));
        self
    }

    /// Serves a view of a stored kind; the kind itself must be served too.
    pub fn view<V: View>(mut self, view: V, source: Arc<Registry<V::Source>>) -> Self {
        self.resources.push(Arc::new(ViewResource::new(view, source)));
        self
    }

    /// Adds an action to a resource or a view, by its plural, in all versions.
    pub fn action<A: Action>(mut self, plural: &str, action: Arc<A>) -> Self {
        self.actions.push((plural.to_owned(), Arc::new(PostedAction::new(action))));
        self
    }

    /// Sets the authenticator; required.
    pub fn authenticator(mut self, authenticator: Arc<dyn Authenticator>) -> Self {
        self.authenticator = Some(authenticator);
        self
    }

    /// Sets the authorizer; required.
    pub fn authorizer(mut self, authorizer: Arc<dyn Authorizer>) -> Self {
        self.authorizer = Some(authorizer);
        self
    }

    /// Sets the source of namespaces; required when a kind is namespaced.
    pub fn namespaces(mut self, namespaces: Arc<dyn Namespaces>) -> Self {
        self.namespaces = Some(namespaces);
        self
    }

    /// Sets the metrics. To include those of the store, wrap it by [`Metrics::measure`].
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Sets the plugins of admission, which intercept the writes to every resource and action.
    pub fn admission(mut self, admission: Arc<dyn Admission>) -> Self {
        self.admission = Some(admission);
        self
    }

    /// Writes to the store every second. The header `Store-Written` of each reply has the time of the last
    /// write that succeeded. `/readyz` fails while the clock of this server differs by more than 2 s from the
    /// other servers of the store.
    pub fn write_probe(mut self, store: Arc<dyn Store>) -> Self {
        self.write_probe = Some(WriteProbe::new(store));
        self
    }

    /// Adds a warning to each reply about a resource while that function returns one.
    pub fn standing_warning(mut self, warning: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        self.standing_warning = Some(Box::new(warning));
        self
    }

    /// Records requests in an audit log, as the policy says. Close the log when the server has ended.
    pub fn audit(mut self, policy: Policy, log: Arc<AuditLog>) -> Self {
        self.audit = Some((policy, log));
        self
    }

    /// Traces requests. Shut the traces down when the server has ended.
    pub fn traces(mut self, traces: Traces) -> Self {
        self.traces = Some(traces);
        self
    }

    /// Builds the server.
    ///
    /// # Errors
    ///
    /// A required part is missing, or a resource is served twice or stored in a version that is not served.
    /// The path of a scale is no field of its kind. The documents cannot be generated from the schemas, or a
    /// schema has a keyword that is not valid.
    pub fn build(self) -> Result<Server, BuildError> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        let authenticator = self.authenticator.ok_or(BuildError::Missing("authenticator"))?;
        let authorizer = self.authorizer.ok_or(BuildError::Missing("authorizer"))?;
        let namespaced = self.resources.iter().any(|resource| resource.info().namespaced);
        if namespaced && self.namespaces.is_none() {
            return Err(BuildError::Missing("namespaces"));
        }
        let mut resources = HashMap::new();
        for resource in self.resources {
            let name = resource.name().clone();
            let key = (name.group.clone(), name.version.clone(), name.plural.clone());
            let served = Served { scale: resource.scale(), resource, actions: Vec::new() };
            if resources.insert(key, served).is_some() {
                return Err(BuildError::Twice(name.to_string()));
            }
        }
        for Served { resource, .. } in resources.values() {
            let name = resource.name();
            let Some(version) = resource.stored_version() else { continue };
            if !resources.contains_key(&(name.group.clone(), version.clone(), name.plural.clone())) {
                return Err(BuildError::Unserved { resource: name.to_string(), version });
            }
        }
        for (plural, action) in self.actions {
            let mut owners: Vec<&mut Served> =
                resources.values_mut().filter(|served| served.resource.name().plural == plural).collect();
            let groups: HashSet<&str> =
                owners.iter().map(|served| served.resource.name().group.as_str()).collect();
            if groups.len() != 1 {
                let found = groups.len();
                return Err(BuildError::ActionOnNothing { action: action.name(), plural, found });
            }
            if let Some(admission) = &self.admission {
                let versions = owners.iter().map(|served| served.resource.name().version.clone());
                action.set_admission(admission, versions.collect());
            }
            for served in &mut owners {
                served.actions.push(action.clone());
            }
        }
        if let Some(admission) = &self.admission {
            for served in resources.values() {
                served.resource.set_admission(admission);
            }
        }
        let info = Info { title: self.options.title.clone(), version: self.options.version.clone() };
        let documents = Documents::new(&info, &described::groups(resources.values()))?;
        let auditor = self.audit.map(|(policy, log)| Auditor::new(policy, log, &self.metrics));
        let limiters = Limiters::new(&self.options, &self.metrics);
        Ok(Server::new(Core {
            options: self.options,
            resources,
            documents,
            authenticator,
            authorizer,
            namespaces: self.namespaces,
            admission: self.admission,
            metrics: self.metrics,
            limiters,
            rendered: Rendered::new(),
            auditor,
            traces: self.traces,
            write_probe: self.write_probe,
            standing_warning: self.standing_warning,
            storage: Mutex::default(),
            stopping: CancellationToken::new(),
            shutdown: CancellationToken::new(),
        }))
    }
}
