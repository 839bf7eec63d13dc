//! The agent's process.

use std::process::ExitCode;

use evacuation_agent::{Options, run};

fn main() -> ExitCode {
    let options = Options::of_process();
    let log = options.log();
    // It fails only when it was done before.
    rustls::crypto::ring::default_provider().install_default().ok();
    // kube logs every failed request; the client crate logs those that matter.
    log.start(&["kube_runtime", "kube_client"]);
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
        Err(error) => log.failed(module_path!(), error.as_ref()),
    }
}
