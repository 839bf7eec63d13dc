//! Histories of a store, which change when it goes back to an earlier state.

use tokio::sync::watch;

/// Number of the history that a store shows.
///
/// A store goes back when an operator restores a backup. Revisions that were read before then name other
/// states, or none. The store counts such events for as long as it is open, and each gets a new number.
///
/// # Guarantees
///
/// Revisions that were read under one number belong to one history. A call whose reply would belong to a new
/// history fails with [`StoreError::Unavailable`](crate::StoreError::Unavailable), and the number has changed
/// when the call returns.
#[derive(Clone, Debug)]
pub struct History(Option<watch::Receiver<u64>>);

impl History {
    /// Returns the only history of a store that cannot go back while it is open.
    pub const fn only() -> Self {
        Self(None)
    }

    /// Returns the history that a store counts.
    pub const fn counted(number: watch::Receiver<u64>) -> Self {
        Self(Some(number))
    }

    /// Returns the number.
    pub fn number(&self) -> u64 {
        self.0.as_ref().map_or(0, |number| *number.borrow())
    }

    /// Waits until the number differs from `known`; for ever when it cannot change any more.
    pub async fn differs_from(&self, known: u64) {
        let changed = async {
            let mut number = self.0.clone()?;
            number.wait_for(|number| *number != known).await.ok().map(|_| ())
        };
        if changed.await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn a_reader_learns_that_the_number_changed_also_before_it_waits() {
        let sender = watch::Sender::new(0);
        let history = History::counted(sender.subscribe());
        let mut waiting = pin!(history.differs_from(0));
        assert!(poll!(&mut waiting).is_pending());
        sender.send_replace(1);
        waiting.await;
        history.differs_from(0).await;
        assert_eq!((history.number(), History::only().number()), (1, 0));
        drop(sender);
        assert!(poll!(pin!(history.differs_from(1))).is_pending());
        assert!(poll!(pin!(History::only().differs_from(0))).is_pending());
    }
}
