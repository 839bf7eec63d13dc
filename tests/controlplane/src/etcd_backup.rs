//! Backups of etcd, and their restoration by `etcdutl`.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::{Error, Etcd, GoTool, Result, output_of};

/// The program that restores snapshots.
const ETCDUTL: GoTool = GoTool {
    name: "etcdutl",
    package: "go.etcd.io/etcd/etcdutl/v3",
    module: None,
    toolchain: None,
    linker_flags: None,
    files: &[
        ("go.mod", include_str!("../tools/etcdutl/go.mod")),
        ("go.sum", include_str!("../tools/etcdutl/go.sum")),
    ],
};

impl Etcd {
    /// Writes a snapshot of the running etcd to a file, as `etcdctl snapshot save` does.
    ///
    /// # Errors
    ///
    /// Fails when etcd does not answer, or the file cannot be written.
    pub async fn save_snapshot(&self, path: &Path) -> Result<()> {
        let mut snapshot = Vec::new();
        for part in self.stream("/v3/maintenance/snapshot", &json!({})).await? {
            let blob = part.pointer("/result/blob").and_then(Value::as_str).unwrap_or_default();
            snapshot.extend(STANDARD.decode(blob).map_err(|error| self.failed(&error.to_string()))?);
        }
        fs::write(path, snapshot).map_err(Error::file("write", path))
    }

    /// Kills etcd, replaces its data by a snapshot, and starts it again on the same port. `arguments` are
    /// further ones of `etcdutl snapshot restore`, such as `--mark-compacted`.
    ///
    /// # Errors
    ///
    /// Fails when `etcdutl` cannot be built or fails, and when etcd does not become ready.
    pub async fn restore_snapshot(&self, path: &Path, arguments: &[&str]) -> Result<()> {
        let built = tokio::task::spawn_blocking(|| ETCDUTL.build()).await;
        let etcdutl = built.map_err(|error| self.failed(&error.to_string()))??.program;
        self.stop()?;
        let data = self.data()?;
        fs::remove_dir_all(&data).map_err(Error::file("remove", &data))?;
        let mut command = Command::new(etcdutl);
        command.args(["snapshot", "restore"]).arg(path).arg("--data-dir").arg(&data);
        command.args(["--name", "default", "--initial-advertise-peer-urls", self.peer()]);
        command.arg("--initial-cluster").arg(format!("default={}", self.peer())).args(arguments);
        let output = output_of("etcdutl", command).await?;
        if !output.success() {
            return Err(self.failed(&output.stderr));
        }
        self.start_again().await
    }
}
