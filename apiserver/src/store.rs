//! The store that the options name.

use std::{path::Path, sync::Arc};

use machinery_storage::{EmbeddedOptions, EmbeddedStore, EtcdOptions, EtcdStore, EtcdTls, Store};

use crate::{Options, RunError, Storage};

/// The embedded store's file in `--data-dir`.
const EMBEDDED_FILE: &str = "store.redb";

/// Opens the store. Whether etcd is there is seen later, by the readiness check: the server waits for it.
pub(crate) async fn open(options: &Options) -> Result<Arc<dyn Store>, RunError> {
    match options.storage {
        Storage::Etcd => {
            let etcd = EtcdOptions {
                key_prefix: options.etcd_prefix.trim_end_matches('/').to_owned(),
                tls: etcd_tls(options).await?,
                ..EtcdOptions::new(options.etcd_servers.iter().cloned())
            };
            Ok(Arc::new(EtcdStore::connect(etcd).await.map_err(RunError::Etcd)?))
        }
        Storage::Embedded => {
            let folder = options.data_dir.clone().unwrap_or_default();
            let failed = |source| RunError::DataDir {
                folder: folder.clone(),
                source,
            };
            tokio::fs::create_dir_all(&folder)
                .await
                .map_err(|source| failed(Box::new(source)))?;
            let embedded = EmbeddedOptions::new(folder.join(EMBEDDED_FILE));
            Ok(Arc::new(
                EmbeddedStore::open(embedded)
                    .await
                    .map_err(|source| failed(Box::new(source)))?,
            ))
        }
    }
}

async fn etcd_tls(options: &Options) -> Result<Option<EtcdTls>, RunError> {
    let Some(ca) = &options.etcd_cafile else {
        return Ok(None);
    };
    let identity = match (&options.etcd_certfile, &options.etcd_keyfile) {
        (Some(certificate), Some(key)) => Some((read(certificate).await?, read(key).await?)),
        _ => None,
    };
    Ok(Some(EtcdTls {
        ca: read(ca).await?,
        identity,
    }))
}

async fn read(file: &Path) -> Result<Vec<u8>, RunError> {
    tokio::fs::read(file).await.map_err(|source| RunError::Read {
        file: file.to_owned(),
        source,
    })
}
