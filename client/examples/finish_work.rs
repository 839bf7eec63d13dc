//! An app that finishes its work first: it delays for as long as the work takes, then accepts.
//!
//! `cargo run --example finish_work -- --work-seconds 10`; see `accept.rs` for the token.

use std::time::Duration;

use async_trait::async_trait;
use clap::Parser;
use evacuation_client::{Answer, Handler, Question, Responder};

#[derive(Parser)]
struct Options {
    /// Duration of the work, in seconds.
    #[arg(long, default_value_t = 10)]
    work_seconds: u64,
    /// Duration of each delay that the app asks for, in seconds.
    #[arg(long, default_value_t = 10)]
    step_seconds: u64,
}

struct Worker {
    work: Duration,
    step: Duration,
}

impl Worker {
    async fn finish(&self) {
        tokio::time::sleep(self.work).await;
    }
}

#[async_trait]
impl Handler for Worker {
    async fn asked(&self, question: Question) -> Answer {
        if question.is_rehearsal() {
            println!("a rehearsal by {}: the work goes on", question.wanted_by());
            return Answer::delay(self.work).message("the work would be finished first");
        }
        println!("asked by {}: give me {} s", question.wanted_by(), self.work.as_secs());
        match question.hold(self.step, self.finish()).await {
            Ok(()) => println!("the work is done: accepting"),
            Err(ended) => println!("{ended}"),
        }
        Answer::accept()
    }

    async fn canceled(&self, question: Question) {
        println!("{} was canceled: taking work again", question.name());
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let options = Options::parse();
    let worker = Worker {
        work: Duration::from_secs(options.work_seconds),
        step: Duration::from_secs(options.step_seconds),
    };
    Responder::of_pod(evacuation_client::connect().await?).run(worker).await;
    Ok(())
}
