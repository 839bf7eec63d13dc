//! Raw calls of etcd, which no server above it can exceed.

use std::time::Instant;

use anyhow::Context;
use etcd_client::Client;
use evacuation_e2e::Platform;
use futures::future::try_join_all;

use super::{
    BENCH, kinds,
    load::{Figures, Verb},
};
use crate::report::Row;

/// Number of puts and of gets by all clients together.
const CALLS: usize = 8000;
/// Name of the peer in the rows.
const PEER: &str = "etcd itself";

/// Puts and gets a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    puts: f64,
    gets: f64,
}

/// Measures the platform's etcd with so many clients, each with a connection of its own.
pub(super) async fn measure(platform: &Platform, clients: usize) -> anyhow::Result<Rates> {
    let etcd = platform.etcd().context("the API server has an etcd")?;
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(Client::connect([etcd.endpoint()], None).await?);
    }
    let value = serde_json::to_vec(&kinds::OURS.object("raw", 0))?;
    let began = Instant::now();
    try_join_all(connections.iter().enumerate().map(|(client, connection)| {
        let (mut connection, value) = (connection.clone(), value.clone());
        tokio::spawn(async move {
            for number in (client..CALLS).step_by(clients) {
                connection.put(format!("/raw/{number}"), value.clone(), None).await?;
            }
            anyhow::Ok(())
        })
    }))
    .await?
    .into_iter()
    .collect::<anyhow::Result<()>>()?;
    let puts = rate(began);
    let began = Instant::now();
    try_join_all(connections.iter().enumerate().map(|(client, connection)| {
        let mut connection = connection.clone();
        tokio::spawn(async move {
            for number in (client..CALLS).step_by(clients) {
                connection.get(format!("/raw/{number}"), None).await?;
            }
            anyhow::Ok(())
        })
    }))
    .await?
    .into_iter()
    .collect::<anyhow::Result<()>>()?;
    Ok(Rates { puts, gets: rate(began) })
}

fn rate(began: Instant) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "some thousand calls")]
    let calls = CALLS as f64;
    calls / began.elapsed().as_secs_f64()
}

/// Returns the rows of our creates beside puts, and of our gets beside gets.
pub(super) fn rows(clients: usize, ours: &Figures, raw: Rates) -> [Row; 2] {
    [(Verb::Create, raw.puts), (Verb::Get, raw.gets)].map(|(verb, peer)| {
        let case = format!("calls a second, {}, {clients} clients", verb.name());
        Row::new(BENCH, case, "1/s", ours.of(verb).rate).higher().beside(PEER, peer)
    })
}
