//! State of a responder's watch.

use tokio::{sync::watch, time::Instant};

/// State of a responder's watch, as [`Responder::connection`](crate::Responder::connection) reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// No attempt has succeeded or failed yet.
    Starting,
    /// The responder sees new questions.
    Up,
    /// The responder sees no new questions, and keeps trying.
    Down {
        /// Time of the first failure.
        since: Instant,
        /// The last failure with its causes.
        error: String,
    },
}

/// Records the state of a watch, and logs each change of it once.
#[derive(Clone)]
pub(crate) struct Reporter(watch::Sender<Connection>);

impl Default for Reporter {
    fn default() -> Self {
        Self(watch::Sender::new(Connection::Starting))
    }
}

impl Reporter {
    pub(crate) fn subscribe(&self) -> watch::Receiver<Connection> {
        self.0.subscribe()
    }

    /// Records a success.
    pub(crate) fn up(&self) {
        self.0.send_if_modified(|connection| {
            if let Connection::Down { since, .. } = connection {
                let seconds = since.elapsed().as_secs();
                tracing::info!("the watch of evacuations works again, after {seconds} s");
            }
            std::mem::replace(connection, Connection::Up) != Connection::Up
        });
    }

    /// Records a failure. The log gets a line when the watch was up before, or failed for another reason.
    pub(crate) fn down(&self, error: String) {
        self.0.send_if_modified(|connection| {
            let since = match connection {
                Connection::Down { error: known, .. } if *known == error => return false,
                Connection::Down { since, .. } => *since,
                Connection::Starting | Connection::Up => Instant::now(),
            };
            tracing::warn!("the watch of evacuations failed, trying again: {error}");
            *connection = Connection::Down { since, error };
            true
        });
    }
}
