//! The plan of a new drain, from live reads of the part of the cluster that it depends on.

mod reading;
mod room;

use std::{error::Error, time::Duration};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use evacuation_api::{NodeEvacuation, NodeEvacuationStatus};
use evacuation_protocol::preview;
use kube::Client;
use machinery_auth::flow;
use machinery_client::Shares;
use tokio::{
    sync::Mutex,
    task::{JoinError, spawn_blocking},
};

use self::reading::Reading;

/// Timeout of one plan, with all of its reads.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of plans that are made at a time. Each holds pods in memory.
const AT_ONCE: usize = 2;
/// Maximum number of those of one flow: half, so that slow plans of a user hold up no other.
const AT_ONCE_OF_FLOW: usize = AT_ONCE / 2;

/// Reason for which a drain has no plan.
#[derive(Debug, thiserror::Error)]
pub enum SightError {
    /// The kube-apiserver did not answer in time, the plan took too long, or other plans took the time.
    #[error("the cluster was not read within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The kube-apiserver is not reachable, or rejected a request.
    #[error("{what} cannot be read")]
    Read {
        /// The objects.
        what: String,
        /// The client's error.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The plan would take too much memory.
    #[error("{what} are too many or too large for a plan")]
    TooLarge {
        /// The objects, with the name of their node or namespace.
        what: String,
    },
    /// The task that makes the plan ended without it.
    #[error("the plan was not made")]
    NotMade(#[source] JoinError),
}

/// A drain that is not stored, as it would begin.
#[derive(Debug)]
pub struct Plan {
    /// The status, with the plan.
    pub status: NodeEvacuationStatus,
    /// Objects of namespaces that are too many or too large to be read. Whoever writes them keeps nobody from
    /// a plan, which does not tell what they hold back.
    pub left_out: Vec<String>,
}

/// Planner of drains that are not stored.
#[async_trait]
pub trait Sights: Send + Sync + 'static {
    /// Returns the plan of a drain that begins at that time, for a request of that user.
    async fn preview(
        &self,
        drain: &NodeEvacuation,
        user: &str,
        now: DateTime<Utc>,
    ) -> Result<Plan, SightError>;
}

/// Planner that reads from the kube-apiserver.
///
/// # Guarantees
///
/// At most two plans are made at a time, and one of a user, or of the service accounts of a namespace. Of
/// each object only the fields are kept that a plan needs. The memory of a plan is bounded, whatever objects
/// tenants write: a plan that needs more fails. A plan is made on a thread of its own. One that takes longer
/// than its caller waits keeps its turn until it is made.
pub struct KubeSights {
    client: Client,
    turns: Shares,
    decoding: Mutex<()>,
}

impl KubeSights {
    /// Returns a planner with that client, which needs `list` for pods, nodes and poddisruptionbudgets, and
    /// `get` for nodes and daemonsets.
    pub fn new(client: Client) -> Self {
        Self { client, turns: Shares::new(AT_ONCE, AT_ONCE_OF_FLOW), decoding: Mutex::new(()) }
    }
}

#[async_trait]
impl Sights for KubeSights {
    async fn preview(
        &self,
        drain: &NodeEvacuation,
        user: &str,
        now: DateTime<Utc>,
    ) -> Result<Plan, SightError> {
        let plan = async {
            let turn = self.turns.slot(flow(user), TIMEOUT).await.map_err(|_| SightError::Timeout)?;
            let found = Reading::new(&self.client, &self.decoding).read(&drain.spec).await?;
            let drain = drain.clone();
            let made = spawn_blocking(move || {
                let (sight, left_out) = found.into_sight();
                let status = preview(&drain, &sight, now);
                drop(turn);
                Plan { status, left_out }
            });
            made.await.map_err(SightError::NotMade)
        };
        tokio::time::timeout(TIMEOUT, plan).await.unwrap_or(Err(SightError::Timeout))
    }
}

#[cfg(test)]
mod tests;
