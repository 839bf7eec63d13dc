//! Evaluation off the threads that serve requests.

use std::{sync::Arc, time::Duration};

use kube_cel::cel::Value as Cel;
use machinery_auth::Authorizer;
use machinery_server::ApiError;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{Conditions, Environment, authorizer::Authz, budget::Budget, stack::with_large_stack};
use crate::{limiter::Limiter, refusal, subject::Subject};

/// Maximum time for which an evaluation waits for a thread.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Evaluates expressions on threads of their own, as many at once as the limiter allows. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Evaluator {
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) limiter: Limiter,
}

impl Evaluator {
    /// Gathers the variables that the expressions of one write see.
    pub(crate) async fn environment(&self, subject: &Subject<'_>) -> Result<Environment, ApiError> {
        let namespace = if subject.attributes.context.namespace.is_empty() {
            None
        } else {
            let namespace = subject.namespace().await.map_err(|error| error.0)?;
            let phase =
                if namespace.metadata.deletion_timestamp.is_some() { "Terminating" } else { "Active" };
            Some(json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": visible_metadata(&namespace.metadata),
                "status": {"phase": phase},
            }))
        };
        let authz = Authz {
            authorizer: self.authorizer.clone(),
            runtime: Handle::current(),
            user: subject.attributes.context.user.clone(),
        };
        Ok(Environment::new(subject, namespace.as_ref(), authz))
    }

    /// Evaluates match conditions. The inner error says why they cannot be evaluated.
    pub(crate) async fn match_conditions(
        &self,
        conditions: &Conditions,
        subject: &Subject<'_>,
        params: Option<Cel>,
    ) -> Result<Result<bool, String>, ApiError> {
        let (conditions, environment) = (conditions.clone(), self.environment(subject).await?);
        let user = &subject.attributes.context.user.name;
        self.run(user, move || {
            let budget = Budget::new();
            conditions.matches(&environment.context(params.as_ref(), &budget), &budget)
        })
        .await
    }

    /// Runs an evaluation on a thread that may block.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        user: &str,
        evaluate: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = self.limiter.enter(user, MAX_WAIT).await;
        let place = place.ok_or_else(|| refusal::too_many("evaluations of admission expressions"))?;
        let evaluated = tokio::task::spawn_blocking(move || {
            let result = with_large_stack(evaluate);
            drop(place);
            result
        });
        evaluated.await.map_err(|error| error.to_string()).flatten().map_err(|error| {
            tracing::error!(error, "the evaluation of an admission expression failed");
            refusal::internal("the evaluation of an admission expression failed")
        })
    }
}

/// Returns the metadata of a namespace that expressions may see.
fn visible_metadata(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Option<Value> {
    let mut value = serde_json::to_value(metadata).ok()?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("managedFields");
        fields.remove("ownerReferences");
        fields.remove("finalizers");
    }
    Some(value)
}
