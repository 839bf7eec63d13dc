//! `evacuation-agent pre-stop`: the preStop hook of the app's container.

use std::{path::Path, process::ExitCode};

use tokio::{io::AsyncReadExt, net::UnixStream};

use crate::{
    options::PreStop,
    socket::{End, finish},
    work::Work,
};

/// Maximum size of the agent's reply, in bytes.
const MAX_LINE: u64 = 16 * 1024;

/// Waits until the work is done: by the agent, or without one by the hook's own command or URL. Succeeds when
/// it is done.
pub(crate) async fn run(options: PreStop) -> ExitCode {
    let timeout = options.timeout;
    match tokio::time::timeout(timeout, wait(options)).await {
        Ok((End::Done, _)) => ExitCode::SUCCESS,
        Ok((end, message)) => {
            eprintln!("the work is not done: {end}: {message}");
            ExitCode::FAILURE
        }
        Err(_) => {
            let timeout = humantime::format_duration(timeout);
            eprintln!("the work is not done after {timeout}");
            ExitCode::FAILURE
        }
    }
}

async fn wait(options: PreStop) -> (End, String) {
    if let Some(end) = ask(&options.socket).await {
        return end;
    }
    let Some(action) = options.fallback.action() else {
        let message = format!("no agent answers at {}", options.socket.display());
        return (End::Failed, message);
    };
    finish(&Work::new(action, None, options.bounds)).await
}

/// The reply of the agent; none without an agent, or when the agent ends before it replies.
async fn ask(socket: &Path) -> Option<(End, String)> {
    let stream = UnixStream::connect(socket).await.ok()?;
    let mut line = String::new();
    stream.take(MAX_LINE).read_to_string(&mut line).await.ok()?;
    let (word, message) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
    Some((End::of_word(word)?, message.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        action::Action,
        bounds::Bounds,
        options::{Mode, Options},
        socket,
    };

    fn sh(script: &str) -> Action {
        Action::Exec(["sh", "-c", script].map(str::to_owned).into())
    }

    fn hook(socket: &Path, more: &[&str]) -> PreStop {
        let socket = socket.display().to_string();
        let line = ["evacuation-agent", "pre-stop", "--socket", &socket];
        match Options::parse_from(line.iter().chain(more)).mode {
            Mode::PreStop(hook) => hook,
            other => panic!("{other:?}"),
        }
    }

    /// An agent whose work is that script.
    fn agent(socket: &Path, script: &str) -> (tokio::task::JoinHandle<()>, CancellationToken) {
        let bounds = Bounds { limit: Duration::from_mins(1), grace: Duration::from_millis(100) };
        let shutdown = CancellationToken::new();
        let work = Work::new(sh(script), None, bounds);
        let listener = socket::listen(socket).unwrap();
        (tokio::spawn(socket::serve(listener, work, shutdown.clone())), shutdown)
    }

    #[tokio::test]
    async fn the_agents_work_is_waited_for_and_what_it_says_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, mark) = (folder.path().join("s"), folder.path().join("mark"));
        let second =
            format!("if [ -e {0} ]; then echo late; else touch {0}; echo 1; exit 75; fi", mark.display());
        for (script, expected) in [
            ("echo flushed", (End::Done, "flushed")),
            (second.as_str(), (End::Done, "late")),
            ("echo a backup runs >&2; exit 1", (End::Refused, "a backup runs")),
            ("kill -9 $$", (End::Failed, "the command ended with signal: 9 (SIGKILL)")),
        ] {
            let (agent, shutdown) = agent(&socket, script);
            let (end, message) = wait(hook(&socket, &["--exec", "true"])).await;
            assert_eq!((end, message.as_str()), expected, "{script}");
            shutdown.cancel();
            agent.await.unwrap();
        }
    }

    #[tokio::test]
    async fn without_an_agent_the_hook_does_the_work_itself() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let (end, message) = wait(hook(&socket, &["--exec", "echo", "flushed"])).await;
        assert_eq!((end, message.as_str()), (End::Done, "flushed"));
        let (end, message) = wait(hook(&socket, &[])).await;
        assert_eq!(end, End::Failed);
        assert!(message.starts_with("no agent answers at"), "{message}");
    }

    #[tokio::test]
    async fn an_agent_that_is_shut_down_meanwhile_leaves_the_work_to_the_hook() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, mark) = (folder.path().join("s"), folder.path().join("mark"));
        let (_agent, shutdown) = agent(&socket, &format!("touch {}; exec sleep 60", mark.display()));
        let stopper = async {
            while !mark.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            shutdown.cancel();
        };
        let hook = hook(&socket, &["--exec", "echo", "flushed"]);
        let ((end, message), ()) = tokio::join!(wait(hook), stopper);
        assert_eq!((end, message.as_str()), (End::Done, "flushed"));
    }

    #[tokio::test]
    async fn a_hook_does_not_wait_longer_than_it_may() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let (_agent, _shutdown) = agent(&socket, "exec sleep 60");
        let code = run(hook(&socket, &["--timeout", "100ms"])).await;
        assert_eq!(code, ExitCode::FAILURE);
    }
}
