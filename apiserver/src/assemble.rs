//! Assembly of the server from its parts.

use std::{sync::Arc, time::Duration};

use evacuation_api::{Evacuation, SelfEvacuation};
use machinery_audit::{AuditLog, Policy};
use machinery_auth::{Authenticator, Authorizer};
use machinery_server::{Admission, BuildError, Metrics, Namespaces, Registry, Server, ServerOptions};
use machinery_storage::Store;
use machinery_tracing::Traces;

use crate::{
    CurrentSettings, EvacuationResponderStrategy, EvacuationStrategy, GroupTerm, Leader, LimitOptions,
    NodeEvacuationRuleStrategy, NodeEvacuationStrategy, Pods, Respond, SelfEvacuationView, Sights,
    node_evacuation::keep_unattended,
};

/// Dependencies of the server.
pub struct Parts {
    /// Store of the objects.
    pub store: Arc<dyn Store>,
    /// Reader of the target pods.
    pub pods: Arc<dyn Pods>,
    /// Reader of what the plan of a new drain depends on.
    pub sights: Arc<dyn Sights>,
    /// Authentication of callers.
    pub authenticator: Arc<dyn Authenticator>,
    /// Authorisation of each request, and of its consequences.
    pub authorizer: Arc<dyn Authorizer>,
    /// The namespaces of the cluster.
    pub namespaces: Arc<dyn Namespaces>,
    /// Time in which the server still accepts requests after the shutdown signal.
    pub shutdown_delay: Duration,
    /// Limits on what callers can use.
    pub limits: LimitOptions,
    /// Defaults of requesters and limits of responders.
    pub settings: Arc<CurrentSettings>,
    /// Audit policy and log; `None` when nothing is recorded.
    pub audit: Option<(Policy, Arc<AuditLog>)>,
    /// Traces of requests; `None` when nothing is traced.
    pub traces: Option<Traces>,
    /// Admission of writes by plugins, if there are any.
    pub admission: Option<Arc<dyn Admission>>,
    /// Watch over the controller's lease; `None` for a controller without one.
    pub leader: Option<Arc<Leader>>,
    /// Metrics of the server.
    pub metrics: Metrics,
}

/// Returns the server with every resource of the API. Tests use the same routes.
///
/// # Errors
///
/// The OpenAPI documents cannot be made from the kinds' schemas.
pub fn assemble(parts: Parts) -> Result<Server, BuildError> {
    let Parts { store, pods, sights, authenticator, authorizer, namespaces, .. } = parts;
    let Parts { shutdown_delay, limits, settings, audit, traces, admission, leader, metrics, .. } = parts;
    let store = metrics.measure(store, "");
    let responders = EvacuationResponderStrategy::new(Arc::clone(&authorizer), Arc::clone(&settings));
    let probed = Arc::clone(&store);
    let responders = Registry::with_limits(Arc::clone(&store), "", responders, limits.responders());
    let strategy = EvacuationStrategy::new(
        Arc::clone(&pods),
        Arc::clone(&responders),
        Arc::clone(&authorizer),
        Arc::clone(&settings),
    );
    let evacuations = Registry::with_limits(Arc::clone(&store), "", strategy, limits.objects());
    let term = GroupTerm::of_days(limits.rule_groups_days);
    let rules = NodeEvacuationRuleStrategy::new(Arc::clone(&authorizer), term, Arc::clone(&settings));
    let rules = Registry::with_limits(Arc::clone(&store), "", rules, limits.objects());
    let drains =
        NodeEvacuationStrategy::new(Arc::clone(&authorizer), (Arc::clone(&rules), term), sights, settings);
    let drains = Registry::with_limits(store, "", drains, limits.objects());
    if let Some(leader) = &leader {
        let kept = keep_unattended(Arc::clone(&drains), Arc::clone(leader), leader.shutdown());
        tokio::spawn(kept);
    }
    let respond = Respond::for_anyone(Arc::clone(&evacuations), Arc::clone(&pods), Arc::clone(&authorizer));
    let self_respond = Respond::for_target(Arc::clone(&evacuations), pods, Arc::clone(&authorizer));
    let options = ServerOptions {
        title: "Evacuation API".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        shutdown_delay,
        ..limits.server()
    };
    let mut server = Server::builder(options);
    if let Some((policy, log)) = audit {
        server = server.audit(policy, log);
    }
    if let Some(traces) = traces {
        server = server.traces(traces);
    }
    let server = server
        .resource(Arc::clone(&evacuations))
        .action(Evacuation::PLURAL, Arc::new(respond))
        .view(SelfEvacuationView, evacuations)
        .action(SelfEvacuation::PLURAL, Arc::new(self_respond))
        .resource(responders)
        .resource(drains)
        .resource(rules)
        .write_probe(probed)
        .authenticator(authenticator)
        .authorizer(authorizer)
        .namespaces(namespaces)
        .metrics(metrics);
    let server = match admission {
        Some(admission) => server.admission(admission),
        None => server,
    };
    let server = match leader {
        Some(leader) => server.standing_warning(move || leader.warning()),
        None => server,
    };
    server.build()
}
