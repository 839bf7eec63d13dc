//! The audit log: modes, and the thread that writes.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use chrono::Utc;
use strum::{Display, EnumString};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use crate::{
    Event,
    file::{RotatedFile, Rotation},
    queue::{Queue, Usage},
};

/// Number of events that wait to be written, as upstream.
const QUEUED_EVENTS: usize = 10_000;
/// Size of the events that wait to be written.
const QUEUED_BYTES: usize = 64 * 1024 * 1024;
/// Interval of the log lines about events that cannot be written.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Treatment of requests until their events are written. Source: `--audit-log-mode` of kube-apiserver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Mode {
    /// Requests do not wait. While the queue, or their user's share of it, is full, events lose their objects
    /// first, and are dropped when that is not enough.
    Batch,
    /// A reply waits until there is room for its event and the event is written, or cannot be.
    #[default]
    Blocking,
    /// As `Blocking`, and a request whose first event cannot be written fails.
    BlockingStrict,
}

/// Options of an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The file; `-` for standard output.
    pub path: PathBuf,
    /// Treatment of requests.
    pub mode: Mode,
    /// Size in mebibytes from which the file is renamed; 0 for never.
    pub max_size: u64,
    /// Number of old files that are kept; 0 for all.
    pub max_backups: usize,
    /// Number of days for which old files are kept; 0 for all.
    pub max_age: u32,
    /// Maximum time for which a request waits for its event.
    pub patience: Duration,
}

impl Default for LogOptions {
    /// The defaults of kube-apiserver's flags.
    fn default() -> Self {
        Self {
            path: PathBuf::from("-"),
            mode: Mode::default(),
            max_size: 100,
            max_backups: 100,
            max_age: 366,
            patience: Duration::from_secs(10),
        }
    }
}

/// Reason for which a log cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be opened or made.
    #[error("cannot open the audit log {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The system gives no thread.
    #[error("cannot start the thread of the audit log")]
    Thread(#[source] io::Error),
}

/// An event was not written. It is counted in [`AuditLog::failures`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to store audit event")]
pub struct NotRecorded;

/// Numbers of events that were not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// The queue was full, or the log stalled.
    pub buffered: u64,
    /// The file could not be written.
    pub log: u64,
}

/// An audit log. A thread of its own writes the events in their order.
#[derive(Debug)]
pub struct AuditLog {
    shared: Arc<Shared>,
    mode: Mode,
    patience: Duration,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    queue: Queue,
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl AuditLog {
    /// Opens the file and starts the thread.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or the system gives no thread.
    pub fn start(options: LogOptions) -> Result<Self, LogError> {
        let LogOptions { path, mode, max_size, max_backups, max_age, patience } = options;
        let rotation = Rotation {
            size: max_size * 1024 * 1024,
            backups: max_backups,
            age: Duration::from_hours(24) * max_age,
        };
        let target = if path.as_os_str() == "-" {
            Target::Stdout
        } else {
            let opened = RotatedFile::open(path.clone(), rotation);
            Target::File(opened.map_err(|source| LogError::Open { path, source })?)
        };
        Self::with(target, mode, patience)
    }

    fn with(target: Target, mode: Mode, patience: Duration) -> Result<Self, LogError> {
        let queue = Queue::new(Usage { events: QUEUED_EVENTS, bytes: QUEUED_BYTES });
        let shared = Arc::new(Shared { queue, dropped: AtomicU64::new(0), failed: AtomicU64::new(0) });
        let writer = Writer { target, shared: Arc::clone(&shared), complained: None };
        let thread = std::thread::Builder::new().name("audit-log".to_owned()).spawn(|| writer.run());
        let thread = Mutex::new(Some(thread.map_err(LogError::Thread)?));
        Ok(Self { shared, mode, patience, thread })
    }

    /// Returns true when a request whose first event is not written must fail.
    pub fn is_strict(&self) -> bool {
        self.mode == Mode::BlockingStrict
    }

    /// Records an event. Unless the mode is [`Mode::Batch`], this waits for room in the queue and until the
    /// event is written, for the log's patience at most.
    ///
    /// # Errors
    ///
    /// The event is lost, or was not written in time.
    pub async fn record(&self, event: Event) -> Result<(), NotRecorded> {
        if self.mode == Mode::Batch {
            return self.offer(event);
        }
        let (sender, receiver) = oneshot::channel();
        let deadline = Instant::now() + self.patience;
        if self.shared.queue.push_until(deadline, event, sender).await.is_err() {
            return Err(self.dropped());
        }
        match timeout_at(deadline, receiver).await {
            Ok(Ok(true)) => Ok(()),
            // The thread has counted it.
            Ok(_) => Err(NotRecorded),
            Err(_) => Err(self.dropped()),
        }
    }

    /// Records an event without waiting, whatever the mode.
    ///
    /// # Errors
    ///
    /// The event is lost.
    pub fn offer(&self, event: Event) -> Result<(), NotRecorded> {
        self.shared.queue.push(event, None).map_err(|_| self.dropped())
    }

    fn dropped(&self) -> NotRecorded {
        self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        NotRecorded
    }

    /// The numbers of events that were not written.
    pub fn failures(&self) -> Failures {
        Failures {
            buffered: self.shared.dropped.load(Ordering::Relaxed),
            log: self.shared.failed.load(Ordering::Relaxed),
        }
    }

    /// Takes no more events, and waits until the others are written, at most for the log's patience. Returns
    /// false when some are not.
    pub async fn close(&self) -> bool {
        self.shared.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return true };
        let joined = tokio::task::spawn_blocking(move || thread.join().is_ok());
        matches!(tokio::time::timeout(self.patience, joined).await, Ok(Ok(true)))
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

/// Place that lines are written to.
enum Target {
    Stdout,
    File(RotatedFile),
    #[cfg(test)]
    Test(Box<dyn Write + Send>),
}

impl Target {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(line)?;
                stdout.flush()
            }
            Self::File(file) => file.write_line(line, Utc::now()),
            #[cfg(test)]
            Self::Test(target) => target.write_all(line),
        }
    }
}

/// The thread's state.
struct Writer {
    target: Target,
    shared: Arc<Shared>,
    complained: Option<Instant>,
}

impl Writer {
    fn run(mut self) {
        while let Some(entry) = self.shared.queue.next() {
            let line = entry.event.line().map_err(io::Error::from);
            let result = line.and_then(|line| self.target.write_line(&line));
            if let Some(written) = entry.written {
                // A request that no longer waits has counted its event.
                let _ = written.send(result.is_ok());
            }
            if let Err(error) = result {
                self.shared.failed.fetch_add(1, Ordering::Relaxed);
                self.complain(&error);
            }
        }
    }

    fn complain(&mut self, error: &io::Error) {
        if self.complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
            self.complained = Some(Instant::now());
            tracing::error!(%error, "audit events cannot be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::Body;

    /// A disk that writes when the test lets it.
    struct SlowDisk(mpsc::Receiver<io::Result<()>>);

    impl Write for SlowDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(|_| io::Error::other("gone"))?.map(|()| bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log(mode: Mode) -> (AuditLog, mpsc::Sender<io::Result<()>>) {
        let (sender, receiver) = mpsc::channel();
        let target = Target::Test(Box::new(SlowDisk(receiver)));
        (AuditLog::with(target, mode, Duration::from_millis(200)).expect("a log"), sender)
    }

    #[tokio::test]
    async fn a_stalled_disk_delays_no_request_in_batch_mode_and_lost_events_are_counted() {
        let (log, disk) = log(Mode::Batch);
        let mut kept = 0;
        for _ in 0..3000 {
            kept += u64::from(log.record(Event::default()).await.is_ok());
        }
        assert!((1250..=1251).contains(&kept), "a share of the queue, and the one being written: {kept}");
        assert_eq!(log.failures(), Failures { buffered: 3000 - kept, log: 0 });
        for _ in 0..kept {
            disk.send(Ok(())).expect("a disk");
        }
        assert!(log.close().await, "all are written");
    }

    #[tokio::test]
    async fn a_request_waits_for_its_event_in_blocking_mode_for_a_bounded_time() {
        let (log, disk) = log(Mode::Blocking);
        disk.send(Ok(())).expect("a disk");
        log.record(Event::default()).await.expect("written");
        disk.send(Err(io::Error::other("full"))).expect("a disk");
        log.record(Event::default()).await.expect_err("not written");
        log.record(Event::default()).await.expect_err("stalled");
        assert_eq!(log.failures(), Failures { buffered: 1, log: 1 });
        assert!(!log.close().await, "one is not written");
    }

    /// An event with an object that has two thirds of a user's share.
    fn large() -> Event {
        let text = format!("{:?}", "x".repeat(QUEUED_BYTES / 12));
        Event { request_object: Some(Body::Json(text.into())), ..Event::default() }
    }

    #[tokio::test]
    async fn large_events_of_one_user_wait_for_room_in_blocking_mode() {
        let (sender, receiver) = mpsc::channel();
        let target = Target::Test(Box::new(SlowDisk(receiver)));
        let log = AuditLog::with(target, Mode::Blocking, Duration::from_mins(1)).expect("a log");
        // One is being written, one waits for that, and one for room.
        let all = futures::future::join_all((0..3).map(|_| log.record(large())));
        let disk = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            (0..3).for_each(|_| sender.send(Ok(())).expect("a disk"));
        };
        let (results, ()) = tokio::join!(all, disk);
        assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
        assert_eq!(log.failures(), Failures::default());
    }

    #[tokio::test]
    async fn large_events_of_one_user_lose_their_objects_before_they_are_dropped_in_batch_mode() {
        let (log, disk) = log(Mode::Batch);
        for _ in 0..10 {
            log.record(large()).await.expect("a place");
        }
        (0..10).for_each(|_| disk.send(Ok(())).expect("a disk"));
        assert_eq!(log.failures(), Failures::default());
    }

    #[tokio::test]
    async fn events_are_lines_of_the_file_in_their_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        let options = LogOptions { path: path.clone(), ..LogOptions::default() };
        let log = AuditLog::start(options).expect("a log");
        for at in 0..3 {
            let audit_id = format!("id-{at}").into();
            log.record(Event { audit_id, ..Event::default() }).await.expect("written");
        }
        let text = std::fs::read_to_string(&path).expect("text");
        let ids: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["auditID"].to_string())
            .collect();
        assert_eq!(ids, ["\"id-0\"", "\"id-1\"", "\"id-2\""]);
        assert!(log.close().await);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let options = LogOptions { path: "/proc/none/audit.log".into(), ..LogOptions::default() };
        let error = AuditLog::start(options).expect_err("no such place").to_string();
        assert!(error.contains("/proc/none/audit.log"), "{error}");
    }
}
