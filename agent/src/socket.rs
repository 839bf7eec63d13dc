//! The Unix socket for preStop hooks, in a volume that the containers share.
//!
//! A hook connects and sends nothing. When the work has ended, it gets one line: a word of [`End`] and a
//! message. A hook may hang up; the work continues.

use std::{fmt, fs::Permissions, io, os::unix::fs::PermissionsExt, path::Path};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{context::Context, owner::Owner, verdict::Verdict, work::Work};

/// End of a preStop hook's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Refused,
    Failed,
}

impl End {
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        [Self::Done, Self::Refused, Self::Failed].into_iter().find(|end| end.to_string() == word)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
        })
    }
}

/// Runs the work until its verdict is not a delay.
pub(crate) async fn finish(work: &Work) -> (End, String) {
    loop {
        match work.verdict(Owner::PreStop, Context::pre_stop).await {
            Verdict::Accept { message } => return (End::Done, message),
            Verdict::Refuse { message, .. } => return (End::Refused, message),
            Verdict::Failure { message } => return (End::Failed, message),
            Verdict::Delay { time, .. } => tokio::time::sleep(time).await,
        }
    }
}

/// Listens. A socket that an earlier run of the agent left is replaced.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    // The app's container may run as another user. Only containers of the pod reach the volume.
    std::fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Serves until `shutdown`.
pub(crate) async fn serve(listener: UnixListener, work: Work, shutdown: CancellationToken) {
    let mut hooks = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(_) = hooks.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    hooks.spawn(answer(stream, work.clone()));
                }
                Err(error) => {
                    tracing::warn!("a preStop hook could not connect: {error}");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            },
        }
    }
}

async fn answer(mut stream: UnixStream, work: Work) {
    let (mut reader, mut writer) = stream.split();
    let mut byte = [0];
    let gone = async { while let Ok(1..) = reader.read(&mut byte).await {} };
    tokio::select! {
        (end, message) = finish(&work) => {
            let message = message.replace('\n', " ");
            // A hook that has hung up needs no answer.
            writer.write_all(format!("{end} {message}\n").as_bytes()).await.ok();
        }
        () = gone => {}
    }
}
