//! The agent's process.

use std::process::ExitCode;

use evacuation_agent::{Options, Stderr, run};

fn main() -> ExitCode {
    let options = Options::of_process();
    // Both fail only when they were done before.
    rustls::crypto::ring::default_provider().install_default().ok();
    tracing::subscriber::set_global_default(Stderr).ok();
    // One thread, and small ones for what blocks (files, names): the agent shares its app's memory limit.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .thread_stack_size(512 * 1024)
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run(options)).map_err(anyhow::Error::from),
        Err(error) => Err(anyhow::Error::from(error).context("the runtime did not start")),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
