//! The process: from the command line to its end.

use std::{io, net::SocketAddr, path::PathBuf, process::ExitCode};

use evacuation_client::{ConnectError, Responder};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    answering::Answering,
    children,
    health::{self, Health},
    install,
    options::{Mode, Options, Run},
    pre_stop, socket,
    work::Work,
};

/// Failure to start the agent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no client for the kube-apiserver.
    #[error(transparent)]
    Client(#[from] ConnectError),
    /// The address for probes cannot be listened on.
    #[error("{address} cannot be listened on")]
    Health {
        /// The address.
        address: SocketAddr,
        /// Reason.
        #[source]
        source: io::Error,
    },
    /// The socket for preStop hooks cannot be listened on.
    #[error("{} cannot be listened on", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Reason.
        #[source]
        source: io::Error,
    },
    /// The program cannot be copied there.
    #[error("the agent cannot be copied to {}", path.display())]
    Install {
        /// The file.
        path: PathBuf,
        /// Reason.
        #[source]
        source: io::Error,
    },
    /// Signals cannot be waited for.
    #[error("signals cannot be waited for")]
    Signals(#[source] io::Error),
}

/// Carries the command line out. SIGTERM and SIGINT end it.
///
/// # Errors
///
/// The agent does not start. Later failures are logged, and the action is tried again.
pub async fn run(options: Options) -> Result<ExitCode, Error> {
    match options.mode {
        Mode::Run(options) => answer(options).await.map(|()| ExitCode::SUCCESS),
        Mode::PreStop(options) => Ok(pre_stop::run(options).await),
        Mode::Install { to } => {
            install::install(&to).map_err(|source| Error::Install { path: to, source })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn answer(options: Run) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let children = signal(SignalKind::child()).map_err(Error::Signals)?;
    let client = evacuation_client::connect().await?;
    let Some(action) = options.asked.action() else {
        // The command line demands one.
        return Ok(());
    };
    let work = Work::new(action, options.on_cancel.action(), options.bounds);
    let answering = Answering {
        work: work.clone(),
        hold: options.hold,
        retry_after: options.retry_after,
        on_error: options.on_error,
    };

    let (ending, ended) = (CancellationToken::new(), CancellationToken::new());
    let tasks = TaskTracker::new();
    tasks.spawn(children::reap(children, ended.clone()));
    let responder = Responder::of_pod(client).until(ending.clone());
    if let Some(address) = options.health_address {
        let listener = health::listen(address).await;
        let listener = listener.map_err(|source| Error::Health { address, source })?;
        let health = Health {
            connection: responder.connection(),
            needs_api: options.ready_needs_api,
            ending: ending.clone(),
        };
        tasks.spawn(health::serve(listener, health, ended.clone()));
    }
    if let Some(path) = options.socket {
        let listener = socket::listen(&path).map_err(|source| Error::Socket { path, source })?;
        tasks.spawn(socket::serve(listener, work.clone(), ending.clone()));
    }
    tasks.spawn(responder.run(answering));
    tasks.close();
    tracing::info!("waiting for questions");

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("shutting down");
    ending.cancel();
    work.shut_down().await;
    ended.cancel();
    tasks.wait().await;
    Ok(())
}
