//! The client for writes, which only a leader gets.

use kube::Client;

use super::{Leadership, NotLeading};

/// A client that is handed out only while this process leads.
///
/// A part that writes keeps this and no other client for it, so that it cannot forget to look at the lease.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    leadership: Leadership,
}

impl Writer {
    /// Returns the writer of a process.
    pub(crate) fn new(client: Client, leadership: Leadership) -> Self {
        Self { client, leadership }
    }

    /// Returns the client for one write, right before it.
    ///
    /// # Errors
    ///
    /// This process does not lead.
    pub(crate) fn client(&self) -> Result<Client, NotLeading> {
        self.leadership.check()?;
        Ok(self.client.clone())
    }
}
