//! Opening of the store that the options name.

use std::{sync::Arc, time::Duration};

use machinery_storage::{EmbeddedOptions, EmbeddedStore, EtcdOptions, EtcdStore, Store};
use tokio_util::sync::CancellationToken;

use crate::{Options, RunError, Storage, compaction, etcd_tls::EtcdTlsFiles};

/// File of the embedded store in `--data-dir`.
const EMBEDDED_FILE: &str = "store.redb";

/// Opens the store. The readiness check finds out later whether etcd is reachable: the server waits for it.
/// The server reloads etcd's certificates and compacts etcd until `shutdown`.
pub(crate) async fn open(
    options: &Options,
    shutdown: &CancellationToken,
) -> Result<Arc<dyn Store>, RunError> {
    match options.storage {
        Storage::Etcd => {
            let mut etcd = EtcdOptions {
                key_prefix: options.etcd_prefix.trim_end_matches('/').to_owned(),
                ..EtcdOptions::new(options.etcd_servers.iter().cloned())
            };
            let mut certificates = None;
            if let Some(files) = EtcdTlsFiles::of(options) {
                let pems = files.read().await?;
                etcd.tls = Some(pems.clone().into());
                certificates = Some((files, pems));
            }
            let store = Arc::new(EtcdStore::connect(etcd).await.map_err(RunError::Etcd)?);
            if let Some((files, pems)) = certificates {
                let follow = files.follow(pems, Arc::clone(&store));
                tokio::spawn(shutdown.clone().run_until_cancelled_owned(follow));
            }
            let interval = Duration::from_secs(options.etcd_compaction_interval_seconds);
            if !interval.is_zero() {
                let compact = compaction::run(Arc::clone(&store) as Arc<dyn Store>, interval);
                tokio::spawn(shutdown.clone().run_until_cancelled_owned(compact));
            }
            Ok(store)
        }
        Storage::Embedded => {
            let folder = options.data_dir.clone().unwrap_or_default();
            let failed = |source| RunError::DataDir { folder: folder.clone(), source };
            tokio::fs::create_dir_all(&folder).await.map_err(|source| failed(Box::new(source)))?;
            let embedded = EmbeddedOptions::new(folder.join(EMBEDDED_FILE));
            Ok(Arc::new(EmbeddedStore::open(embedded).await.map_err(|source| failed(Box::new(source)))?))
        }
    }
}
