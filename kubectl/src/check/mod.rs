//! `kubectl evacuate check`

mod facts;
mod item;
mod judge;
mod reader;
mod rights;
mod trial;

use std::time::Duration;

use clap::Args;
use serde_json::json;

use self::{
    facts::Facts,
    item::{State, text},
    judge::judge,
    reader::Reader,
};
use crate::{
    Exit,
    connection::NamespacedConnection,
    output::{View, say, tell},
};

/// Time for the whole check, unless `--request-timeout` says another. It covers the restart of one API server
/// and two renewals of the lease.
const PATIENCE: Duration = Duration::from_secs(10);

/// Check the installation: API, store, controller, gateway, clocks, versions, and your own rights.
///
/// Each item is one line with a state: ok, warning, failed, not installed, or unknown. unknown means that you
/// may not read it. A line that is not ok says what helps. The whole check takes --request-timeout at most,
/// 10s by default.
///
/// Exit codes: 0 nothing failed (warnings and unknown items included), 1 an item failed.
#[derive(Args, Debug)]
pub struct Check {
    /// Output format. JSON and YAML have an object whose field `items` has the items.
    #[arg(short, long, value_enum)]
    output: Option<View>,
    #[command(flatten)]
    connection: NamespacedConnection,
}

impl Check {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// No cluster is configured, or the output cannot be written. A part that does not work is an item.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let (client, once, limit) = self.connection.patient_clients(PATIENCE).await?;
        let namespace = client.default_namespace().to_owned();
        let facts = Facts::read(&Reader::new(client, once, limit), &namespace).await;
        let items = judge(&facts, k8s_openapi::jiff::Timestamp::now());
        let names: Vec<String> = items.iter().map(|item| item.name.to_owned()).collect();
        let rendered = match self.output {
            Some(view) => view.render(&json!({ "items": items }), &names)?,
            None => None,
        };
        match rendered {
            Some(rendered) => say(rendered)?,
            None => text(&items, self.output == Some(View::Wide)).iter().try_for_each(tell)?,
        }
        let has_failed = items.iter().any(|item| item.state == State::Failed);
        Ok(if has_failed { Exit::Errors } else { Exit::Done })
    }
}
