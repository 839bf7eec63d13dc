//! An operator of a database: before a replica moves, it fails over.
//!
//! `cargo run --example named -- db.acme.io/failover`. The operator needs the role `evacuation:responder`,
//! and the verb `respond` on `responders` for its name. An EvacuationResponder registers it for the pods:
//! `docs/guide/operators-authors.md`.

use std::time::Duration;

use async_trait::async_trait;
use clap::Parser;
use evacuation_client::{Answer, Handler, Question, Responder};

#[derive(Parser)]
struct Options {
    /// Name of the responder.
    name: String,
    /// Namespace of the pods; all namespaces by default.
    #[arg(long)]
    namespace: Option<String>,
}

struct Operator;

impl Operator {
    /// Stands for the operator's own work.
    async fn fail_over(&self, pod: &str) {
        println!("failing over from {pod}");
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

#[async_trait]
impl Handler for Operator {
    async fn asked(&self, question: Question) -> Answer {
        println!("{}/{} is asked to move by {}", question.namespace(), question.pod(), question.wanted_by());
        match question.hold(Duration::from_mins(1), self.fail_over(question.pod())).await {
            Ok(()) => Answer::accept().reason("FailedOver"),
            Err(ended) => Answer::refuse(ended.to_string()),
        }
    }

    async fn canceled(&self, question: Question) {
        println!("{}/{} stays", question.namespace(), question.pod());
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let options = Options::parse();
    let client = evacuation_client::connect().await?;
    Responder::named(client, options.name, options.namespace.as_deref()).run(Operator).await;
    Ok(())
}
