//! Regular writes to the store, which show since when the store takes none, and how far the clocks of its
//! servers differ.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use machinery_storage::{Operation, Range, Store, StoreError, Transaction};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::peer_clocks::PeerClocks;

/// Pause between two writes.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum time between two writes that is no interruption.
const TOLERATED: Duration = Duration::from_secs(5);
/// Prefix of the keys that are written, one for each server. They belong to no kind: the name of a group has
/// a dot.
const PREFIX: &str = "/write-probe/";

/// Writes a key of this server to the store every second, and reads those of the other servers.
///
/// A store can answer reads and take no writes: an etcd without space does. Clients then cannot write either,
/// and see no reason in what they read. The written times also show how far the servers' clocks differ.
pub(crate) struct WriteProbe {
    store: Arc<dyn Store>,
    /// Name of this process among the servers of the store.
    name: String,
    writes: Mutex<Writes>,
    clocks: Mutex<PeerClocks>,
}

/// Writes that the store took.
#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    /// Last write of this server, by its clock and by the monotonic one, which nobody sets.
    last: Option<(DateTime<Utc>, Instant)>,
    /// Last write of any server, as found at the start.
    found: Option<DateTime<Utc>>,
    /// First write after a time in which the store took none, or after the store went back.
    recovered: Option<DateTime<Utc>>,
    /// Number of the store's history at the last write.
    history: u64,
}

impl Writes {
    /// Records a write. The one before can be of another process, or of the process before this one.
    fn add(&mut self, time: DateTime<Utc>, moment: Instant, history: u64) {
        let gap = match (self.last, self.found) {
            (Some((_, before)), _) => Some(moment.duration_since(before)),
            (None, found) => found.and_then(|before| (time - before).to_std().ok()),
        };
        // Clients wrote what a store that went back has lost. They need time to write it again.
        let went_back = std::mem::replace(&mut self.history, history) != history;
        if went_back || gap.is_some_and(|gap| gap > TOLERATED) {
            self.recovered = Some(time);
        }
        self.last = Some((time, moment));
    }
}

impl WriteProbe {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let name = Uuid::new_v4().to_string();
        Self { store, name, writes: Mutex::default(), clocks: Mutex::default() }
    }

    /// Writes until `shutdown`.
    pub(crate) async fn run(&self, shutdown: &CancellationToken) {
        let (mut failing, mut agreed) = (false, true);
        // The first look tells when the store took the last write before this process.
        if shutdown.run_until_cancelled(self.find_last()).await.is_none() {
            return;
        }
        loop {
            let Some(written) = shutdown.run_until_cancelled(self.write()).await else { return };
            match &written {
                Ok(()) if failing => tracing::info!("the store takes writes again"),
                Err(error) if !failing => tracing::warn!(%error, "the store takes no writes"),
                Ok(()) | Err(_) => {}
            }
            failing = written.is_err();
            if let Some(Err(error)) = shutdown.run_until_cancelled(self.compare()).await {
                tracing::debug!(%error, "the clocks of the other servers are not known");
            }
            let (agree, ahead) = (self.clocks_agree(), self.clock_ahead());
            if agree != agreed {
                tracing::warn!(
                    seconds_ahead = ahead,
                    ready = agree,
                    "compared with the other servers' clocks"
                );
            }
            agreed = agree;
            if shutdown.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
                return;
            }
        }
    }

    /// Writes once.
    async fn write(&self) -> Result<(), StoreError> {
        let (began, moment) = (Utc::now(), Instant::now());
        let put = Operation::Put(format!("{PREFIX}{}", self.name), Bytes::from(text(began)));
        self.commit(put).await?;
        self.writes().add(began, moment, self.store.history().number());
        Ok(())
    }

    /// Waits until the store can be read, and notes the newest write of all servers.
    async fn find_last(&self) {
        let mut newest = self.read().await;
        while newest.is_err() {
            tokio::time::sleep(EVERY).await;
            newest = self.read().await;
        }
        self.writes().found = newest.into_iter().flatten().map(|(_, time)| time).max();
    }

    /// Reads the newest write of each server.
    async fn read(&self) -> Result<Vec<(String, DateTime<Utc>)>, StoreError> {
        let page = self.store.list(&Range { prefix: PREFIX.to_owned(), ..Range::default() }).await?;
        let writes = page.items.iter().filter_map(|item| {
            let name = item.key.strip_prefix(PREFIX)?;
            let time = DateTime::parse_from_rfc3339(std::str::from_utf8(&item.value).ok()?).ok()?;
            Some((name.to_owned(), time.to_utc()))
        });
        Ok(writes.collect())
    }

    /// Reads the keys of the other servers, and removes those of servers that ended.
    async fn compare(&self) -> Result<(), StoreError> {
        let mut writes = self.read().await?;
        writes.retain(|(name, _)| *name != self.name);
        let gone = {
            let mut clocks = self.clocks();
            clocks.look(writes, Utc::now(), Instant::now());
            clocks.gone()
        };
        for name in gone {
            self.commit(Operation::Delete(format!("{PREFIX}{name}"))).await?;
        }
        Ok(())
    }

    async fn commit(&self, operation: Operation) -> Result<(), StoreError> {
        let transaction = Transaction { preconditions: Vec::new(), operations: vec![operation] };
        self.store.commit(transaction).await.map(|_| ())
    }

    fn clocks(&self) -> MutexGuard<'_, PeerClocks> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true when the clock of this server is the one that the servers of the store agree on.
    pub(crate) fn clocks_agree(&self) -> bool {
        self.clocks().agree()
    }

    /// Seconds by which the clock of this server is ahead of the one that the servers agree on.
    pub(crate) fn clock_ahead(&self) -> f64 {
        self.clocks().ahead()
    }

    /// Time of the last write that the store took, by the clock of this server; `never` before the first.
    pub(crate) fn last(&self) -> String {
        self.writes().last.map_or_else(|| "never".to_owned(), |(time, _)| text(time))
    }

    /// Time at which the store took writes again after more than 5 s without one, or after it went back, if
    /// that happened.
    pub(crate) fn recovered(&self) -> Option<String> {
        self.writes().recovered.map(text)
    }

    fn writes(&self) -> MutexGuard<'_, Writes> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_9_the_store_recovers_at_the_first_write_after_a_gap_also_one_of_the_process_before() {
        let (epoch, start) = (DateTime::<Utc>::UNIX_EPOCH, Instant::now());
        let time = |second| epoch + Duration::from_secs(second);
        let moment = |second| start + Duration::from_secs(second);
        let mut fresh = Writes::default();
        fresh.add(time(100), moment(0), 0);
        assert_eq!(fresh.recovered, None, "nobody knows of a write before");
        let mut writes = Writes { found: Some(time(0)), ..Writes::default() };
        for (second, recovered) in [(5, None), (9, None), (60, Some(60)), (61, Some(60))] {
            writes.add(time(second), moment(second), 0);
            assert_eq!(writes.recovered, recovered.map(time), "{second}");
        }
        let mut started = Writes { found: Some(time(0)), ..Writes::default() };
        started.add(time(600), moment(0), 0);
        assert_eq!(started.recovered, Some(time(600)));
        let mut set = Writes::default();
        set.add(time(0), moment(0), 0);
        set.add(time(3600), moment(1), 0);
        assert_eq!(set.recovered, None, "its clock was set");
        set.add(time(3601), moment(2), 1);
        assert_eq!(set.recovered, Some(time(3601)), "the store went back");
        set.add(time(3602), moment(3), 1);
        assert_eq!(set.recovered, Some(time(3601)), "once");
    }
}
