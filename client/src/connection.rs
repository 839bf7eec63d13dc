//! State of a responder's watch.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

/// Minimum time between two lines about one outage.
const LINE_EVERY: Duration = Duration::from_mins(1);

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
pub(crate) struct Reporter {
    connection: watch::Sender<Connection>,
    /// Time of the last line about a failure.
    logged: Arc<Mutex<Option<Instant>>>,
}

impl Default for Reporter {
    fn default() -> Self {
        Self { connection: watch::Sender::new(Connection::Starting), logged: Arc::default() }
    }
}

impl Reporter {
    pub(crate) fn subscribe(&self) -> watch::Receiver<Connection> {
        self.connection.subscribe()
    }

    /// Records a success.
    pub(crate) fn up(&self) {
        self.connection.send_if_modified(|connection| {
            if let Connection::Down { since, .. } = connection {
                let seconds = since.elapsed().as_secs();
                tracing::info!("the watch of evacuations works again, after {seconds} s");
            }
            std::mem::replace(connection, Connection::Up) != Connection::Up
        });
    }

    /// Records a failure.
    pub(crate) fn down(&self, error: String) {
        self.connection.send_if_modified(|connection| {
            let since = match connection {
                Connection::Down { error: known, .. } if *known == error => return false,
                Connection::Down { since, .. } => Some(*since),
                Connection::Starting | Connection::Up => None,
            };
            self.log(since.is_none(), &error);
            *connection = Connection::Down { since: since.unwrap_or_else(Instant::now), error };
            true
        });
    }

    /// Logs the first failure of an outage, and another reason at most once in [`LINE_EVERY`]. A broken
    /// connection can show as one of several errors in turn.
    fn log(&self, first: bool, error: &str) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = logged.is_some_and(|time| time.elapsed() < LINE_EVERY);
        if first || !recent {
            *logged = Some(Instant::now());
            tracing::warn!("the watch of evacuations failed, trying again: {error}");
        }
    }
}
