//! The file as it changes while the gateway runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;
use machinery_watch::follow_file;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use tokio_util::sync::CancellationToken;

use super::{
    file::{ConfigurationError, read_error, table},
    table::Table,
};

/// The state of the configuration, for metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigurationGauges {
    /// 1 while the newest file is in use, 0 while it is invalid and an older one is kept.
    pub(crate) valid: Gauge,
    /// Number of files that came into use.
    pub(crate) loads: Counter,
}

/// The table in use. A file is read again every 5 s; one that cannot be used is logged once and leaves the
/// old table in use.
#[derive(Debug)]
pub(crate) struct ConfigurationFile {
    current: ArcSwap<Table>,
    gauges: ConfigurationGauges,
}

impl ConfigurationFile {
    /// Reads the file, and again every 5 s until `shutdown`. Without a file the built-in table is used.
    ///
    /// # Errors
    ///
    /// The file cannot be used at the start.
    pub(crate) async fn start(
        path: Option<PathBuf>,
        gauges: ConfigurationGauges,
        shutdown: CancellationToken,
    ) -> Result<Arc<Self>, ConfigurationError> {
        gauges.valid.set(1);
        gauges.loads.inc();
        let Some(path) = path else {
            let current = ArcSwap::from_pointee(Table::new(Vec::new()));
            return Ok(Arc::new(Self { current, gauges }));
        };
        let text = read(&path).await?;
        let current = ArcSwap::from_pointee(table(&path, &text)?);
        let this = Arc::new(Self { current, gauges });
        let file = Arc::clone(&this);
        tokio::spawn(shutdown.run_until_cancelled_owned(async move {
            follow_file(&path, text, |content| match content {
                Ok(text) => file.take(&path, text),
                Err(source) => file.reject(&read_error(&path, source)),
            })
            .await;
        }));
        Ok(this)
    }

    /// Returns the table in use.
    pub(crate) fn table(&self) -> Arc<Table> {
        self.current.load_full()
    }

    fn take(&self, path: &Path, text: &[u8]) {
        match table(path, text) {
            Ok(table) => {
                self.current.store(Arc::new(table));
                self.gauges.valid.set(1);
                self.gauges.loads.inc();
                tracing::info!(file = %path.display(), "configuration reloaded");
            }
            Err(error) => self.reject(&error),
        }
    }

    fn reject(&self, error: &ConfigurationError) {
        self.gauges.valid.set(0);
        tracing::error!(
            error = error as &dyn std::error::Error,
            "the new configuration is not used, the old one is kept"
        );
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, ConfigurationError> {
    tokio::fs::read(path).await.map_err(|source| read_error(path, source))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use machinery_watch::FILE_INTERVAL;

    use super::*;
    use crate::testing::{call_of, pod_of};
    use evacuation_api::Operation;

    fn file(name: &str) -> String {
        format!(
            "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\ncallers:\n- name: {name}\n"
        )
    }

    fn row_of(configuration: &ConfigurationFile) -> String {
        let table = configuration.table();
        table.row(&call_of("alice", Operation::Evict), &pod_of(None, None)).name.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_file_comes_into_use_and_an_invalid_one_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.yaml");
        std::fs::write(&path, file("first")).unwrap();
        let gauges = ConfigurationGauges::default();
        let shutdown = CancellationToken::new();
        let configuration =
            ConfigurationFile::start(Some(path.clone()), gauges.clone(), shutdown.clone()).await.unwrap();
        assert_eq!(row_of(&configuration), "first");
        for (text, row, valid) in
            [(file("second"), "second", 1), (file("Not Valid"), "second", 0), (file("third"), "third", 1)]
        {
            std::fs::write(&path, text).unwrap();
            // The file is read by a thread, which a paused clock does not wait for.
            for _ in 0..100 {
                tokio::time::sleep(FILE_INTERVAL).await;
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!((row_of(&configuration).as_str(), gauges.valid.get()), (row, valid));
        }
        shutdown.cancel();
    }

    #[tokio::test]
    async fn an_invalid_file_at_the_start_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.yaml");
        let start = |path: &Path| {
            ConfigurationFile::start(
                Some(path.to_owned()),
                ConfigurationGauges::default(),
                CancellationToken::new(),
            )
        };
        assert!(matches!(start(&path).await, Err(ConfigurationError::Read { .. })));
        std::fs::write(&path, "callers: []").unwrap();
        assert!(matches!(start(&path).await, Err(ConfigurationError::Decode { .. })));
    }
}
