//! One caller takes all that it can, and another is served.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{FutureExt, future::join_all};
use machinery_server::ServerOptions;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::support::{Client, Kitchen, Setup, eventually, pot, revision};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";
/// Labels of the reads of ordinary callers.
const ORDINARY_READS: &str = r#"priority_level="reads",flow_schema="ordinary""#;
/// Labels of the writes of ordinary callers.
const ORDINARY_WRITES: &str = r#"priority_level="writes",flow_schema="ordinary""#;
const GREEDY: &str = "system:serviceaccount:n:greedy";

async fn kitchen(options: ServerOptions) -> Kitchen {
    let priority_users = vec!["controller".to_owned()];
    let options = ServerOptions { priority_users, ..options };
    Kitchen::with(Setup { options, ..Setup::default() }).await
}

/// The value of a metric with that label; 0 when there is none.
async fn metric(kitchen: &Kitchen, name: &str, label: &str) -> u64 {
    let text = kitchen.client_of("controller").get("/metrics").await.text();
    let line = text.lines().find(|line| line.starts_with(name) && line.contains(label));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
}

/// Requests that each keep their slot until they are aborted, or the cache has waited for its revision in
/// vain.
async fn hold_slots(kitchen: &Kitchen, user: &str, count: usize) -> Vec<JoinHandle<()>> {
    kitchen.store.hold_watches(true);
    let unseen = kitchen.client().create_pot("unseen", json!({"dish": "soup"})).await;
    let path = format!("{POTS}?resourceVersion={}", revision(&unseen));
    let hold = |_| {
        let (client, path) = (kitchen.client_of(user), path.clone());
        tokio::spawn(async move {
            loop {
                client.get(&path).await;
            }
        })
    };
    (0..count).map(hold).collect()
}

#[tokio::test]
async fn a_caller_that_fills_all_slots_it_can_excludes_neither_others_nor_the_controller() {
    let kitchen = kitchen(ServerOptions { max_reads_in_flight: 16, ..ServerOptions::default() }).await;
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    let held = hold_slots(&kitchen, GREEDY, 200).await;
    eventually("some of its requests are refused", || async {
        metric(&kitchen, "apiserver_refused_requests_total", "reads").await > 0
    })
    .await;
    let path = format!("{A}?resourceVersion=0");
    for user in ["controller", "cook", "system:serviceaccount:m:baker"] {
        for _ in 0..20 {
            kitchen.client_of(user).get(&path).await.expect(200);
        }
    }
    held.iter().for_each(JoinHandle::abort);
    kitchen.store.hold_watches(false);
}

#[tokio::test]
async fn many_pods_of_one_namespace_exclude_neither_others_nor_the_controller() {
    let kitchen = kitchen(ServerOptions { max_reads_in_flight: 16, ..ServerOptions::default() }).await;
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    let mut held = Vec::new();
    for pod in 0..16 {
        held.extend(hold_slots(&kitchen, &format!("system:serviceaccount:n:pod-{pod}"), 4).await);
        kitchen.client().delete(&format!("{POTS}/unseen")).await.expect(200);
    }
    eventually("their requests wait beyond the share of the namespace", || async {
        metric(&kitchen, "apiserver_flowcontrol_current_inqueue_requests", ORDINARY_READS).await > 50
    })
    .await;
    let path = format!("{A}?resourceVersion=0");
    for user in ["controller", "cook", "system:serviceaccount:m:baker"] {
        kitchen.client_of(user).get(&path).await.expect(200);
    }
    held.iter().for_each(JoinHandle::abort);
    kitchen.store.hold_watches(false);
}

#[tokio::test]
async fn a_revision_of_the_future_is_refused_at_once_and_one_that_the_store_has_is_waited_for() {
    let kitchen = kitchen(ServerOptions::default()).await;
    let client = kitchen.client();
    kitchen.store.hold_watches(true);
    let unseen = revision(&client.create_pot("a", json!({"dish": "soup"})).await);
    let waits = format!("{POTS}?resourceVersion={unseen}");
    let mut waits = Box::pin(client.get(&waits).map(|_| ()));
    for path in [POTS, A, "/apis/kitchen.dev/v1/namespaces/n/ownpots"] {
        let path = format!("{path}?resourceVersion={}", unseen + 1000);
        let answer = tokio::select! {
            biased;
            () = &mut waits => panic!("a revision that the store has is waited for longer than for one of the future"),
            answer = client.get(&path) => answer,
        };
        let status = answer.refused(504, "Timeout");
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge", "{status}");
        assert_eq!(status["details"]["retryAfterSeconds"], 1, "{status}");
        let message = status["message"].as_str().expect("text");
        assert!(message.starts_with("Timeout: Too large resource version"), "{message}");
    }
    kitchen.store.hold_watches(false);
    waits.await;
}

#[tokio::test]
async fn a_pod_that_asks_for_revisions_of_the_future_in_a_loop_excludes_nobody() {
    let kitchen = kitchen(ServerOptions { max_reads_in_flight: 8, ..ServerOptions::default() }).await;
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    let attack = |_| {
        let client = kitchen.client_of(GREEDY);
        tokio::spawn(async move {
            loop {
                client.get("/apis/kitchen.dev/v1/ownpots?resourceVersion=999999999").await;
            }
        })
    };
    let attackers: Vec<JoinHandle<()>> = (0..64).map(attack).collect();
    for _ in 0..50 {
        for user in ["controller", "cook"] {
            kitchen.client_of(user).get(POTS).await.expect(200);
        }
    }
    attackers.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn a_burst_of_one_caller_waits_for_its_own_requests_and_is_served() {
    let kitchen = kitchen(ServerOptions { max_writes_in_flight: 8, ..ServerOptions::default() }).await;
    let client = kitchen.client();
    let create = |at: usize| {
        let client = client.clone();
        async move { client.create_pot(&format!("p{at}"), json!({"dish": "soup"})).await }
    };
    join_all((0..50).map(create)).await;
}

#[tokio::test]
async fn a_tenant_that_floods_delays_itself_and_its_requests_succeed_in_their_turn() {
    let options =
        ServerOptions { max_reads_in_flight: 8, max_writes_in_flight: 8, ..ServerOptions::default() };
    let kitchen = kitchen(options).await;
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    let stop = CancellationToken::new();
    let flood: Vec<JoinHandle<()>> = (0..100)
        .map(|at| {
            let client = kitchen.client_of(&format!("system:serviceaccount:n:pod-{}", at % 4));
            let (stop, mut count) = (stop.clone(), 0);
            tokio::spawn(async move {
                while !stop.is_cancelled() {
                    let name = format!("p{at}-{count}");
                    client.post(POTS, &pot(&name, json!({"dish": "soup"}))).await.expect(201);
                    count += 1;
                }
            })
        })
        .collect();
    let in_queue = || metric(&kitchen, "apiserver_flowcontrol_current_inqueue_requests", ORDINARY_WRITES);
    eventually("the flood waits", || async { in_queue().await > 50 }).await;
    for user in ["controller", "cook", "system:serviceaccount:m:baker"] {
        let (client, path) = (kitchen.client_of(user), format!("{A}?resourceVersion=0"));
        for at in 0..5 {
            client.get(&path).await.expect(200);
            client.merge(A, &json!({"metadata": {"labels": {"at": at.to_string()}}})).await.expect(200);
        }
    }
    stop.cancel();
    for result in join_all(flood).await {
        result.expect("each request was served");
    }
    let waited = "apiserver_flowcontrol_request_wait_duration_seconds_count";
    let waits = metric(&kitchen, waited, &format!("{ORDINARY_WRITES},execute=\"true\"")).await;
    assert!(waits > 50, "{waits}");
    assert_eq!(metric(&kitchen, "apiserver_refused_requests_total", "writes").await, 0);
}

#[tokio::test]
async fn a_request_waits_for_a_quarter_of_its_time_and_a_client_that_leaves_frees_its_place() {
    let kitchen = kitchen(ServerOptions { max_reads_in_flight: 8, ..ServerOptions::default() }).await;
    let undecided = "system:serviceaccount:n:undecided";
    let client = kitchen.client_of(undecided);
    let held = tokio::spawn({
        let client = client.clone();
        async move { drop(client.get(POTS).await) }
    });
    let in_flight = || metric(&kitchen, "apiserver_current_inflight_requests", "readOnly");
    // The other one is the question itself.
    eventually("one is in progress", || async { in_flight().await == 2 }).await;
    let started = Instant::now();
    let refused = client.get(&format!("{POTS}?timeout=8s")).await;
    refused.refused(429, "TooManyRequests");
    assert_eq!(refused.header("retry-after"), "1");
    let took = started.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(8)).contains(&took), "{took:?}");

    let in_queue = || metric(&kitchen, "apiserver_flowcontrol_current_inqueue_requests", ORDINARY_READS);
    let leaves = tokio::spawn(async move { drop(client.get(POTS).await) });
    eventually("it waits", || async { in_queue().await == 1 }).await;
    leaves.abort();
    eventually("it has left", || async { in_queue().await == 0 }).await;
    held.abort();
}

#[tokio::test]
async fn tokens_whose_review_is_not_answered_keep_no_caller_without_a_token_waiting() {
    let kitchen = kitchen(ServerOptions { max_token_reviews: 8, ..ServerOptions::default() }).await;
    let headers = [("authorization", "Bearer unanswered")];
    let client = kitchen.client();
    // One is reviewed, a hundred wait for it.
    let unanswered: Vec<JoinHandle<()>> = (0..110)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { drop(client.send("GET", POTS, &headers, Bytes::new()).await) })
        })
        .collect();
    let refused = || metric(&kitchen, "apiserver_refused_requests_total", "token_reviews");
    eventually("the others of that address are refused", || async { refused().await >= 3 }).await;
    // As what comes through the front proxy.
    client.get(POTS).await.expect(200);
    unanswered.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn a_burst_with_one_token_waits_for_its_review_and_is_served() {
    let kitchen = kitchen(ServerOptions { max_token_reviews: 8, ..ServerOptions::default() }).await;
    let client = kitchen.client_of("");
    let headers = [("authorization", "Bearer slow")];
    let burst = (0..40).map(|_| client.send("GET", POTS, &headers, Bytes::new()));
    for answer in join_all(burst).await {
        answer.expect(200);
    }
}

#[tokio::test]
async fn requests_whose_authorisation_is_not_answered_fill_their_callers_share_and_no_more() {
    let kitchen = kitchen(ServerOptions { max_reads_in_flight: 8, ..ServerOptions::default() }).await;
    let attack = |_| {
        let client = kitchen.client_of("system:serviceaccount:n:undecided");
        tokio::spawn(async move { drop(client.get(POTS).await) })
    };
    // One is authorised, a hundred wait for it.
    let undecided: Vec<JoinHandle<()>> = (0..110).map(attack).collect();
    let refused = || metric(&kitchen, "apiserver_refused_requests_total", "reads");
    eventually("the others of that caller are refused", || async { refused().await >= 9 }).await;
    kitchen.client().get(POTS).await.expect(200);
    undecided.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn bodies_that_are_announced_and_not_sent_keep_no_other_caller_from_writing() {
    let options = ServerOptions { max_body_bytes: 16 * 1024 * 1024, ..ServerOptions::default() };
    let kitchen = kitchen(options).await;
    let head = |size: usize| {
        format!("POST {POTS} HTTP/1.1\r\nhost: k\r\nx-user: {GREEDY}\r\ncontent-length: {size}\r\n\r\n")
    };
    let announce = async |size| {
        let mut connection = TcpStream::connect(kitchen.address()).await.expect("a connection");
        connection.write_all(head(size).as_bytes()).await.expect("sent");
        connection
    };
    // One body can always be sent; the share of one caller is 2 MiB. Either of the two can be the first.
    let (mut one, mut other) = (announce(3_000_000).await, announce(3_000_000).await);
    let (mut of_one, mut of_other) = ([0; 12], [0; 12]);
    let answer = tokio::select! {
        answered = one.read_exact(&mut of_one) => answered.map(|_| of_one),
        answered = other.read_exact(&mut of_other) => answered.map(|_| of_other),
    };
    assert_eq!(String::from_utf8_lossy(&answer.expect("an answer")), "HTTP/1.1 429");
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
}

/// A connection that receives little and reads nothing.
async fn reads_nothing(kitchen: &Kitchen, user: &str, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let (host, port) = kitchen.address();
    let address = format!("{host}:{port}").parse().expect("an address");
    let mut connection = socket.connect(address).await.expect("a connection");
    let head = format!("GET {path} HTTP/1.1\r\nhost: k\r\nx-user: {user}\r\n\r\n");
    connection.write_all(head.as_bytes()).await.expect("sent");
    connection
}

async fn fill(client: &Client, count: usize) {
    for at in 0..count {
        client.create_pot(&format!("large-{at}"), json!({"dish": "x".repeat(1024 * 1024)})).await;
    }
}

#[tokio::test]
async fn a_client_that_reads_no_replies_fills_its_own_share_until_it_is_cut_off() {
    let options = ServerOptions {
        max_reads_in_flight: 8,
        send_timeout: Duration::from_secs(2),
        ..ServerOptions::default()
    };
    let kitchen = kitchen(options).await;
    fill(&kitchen.client(), 10).await;
    let in_flight = || metric(&kitchen, "apiserver_current_inflight_requests", "readOnly");
    let _stuck = reads_nothing(&kitchen, GREEDY, POTS).await;
    // The other one is the question itself.
    eventually("its reply is not read", || async { in_flight().await == 2 }).await;
    kitchen.client().get(A).await.refused(404, "NotFound");
    eventually("it was cut off", || async { in_flight().await == 1 }).await;
}

#[tokio::test]
async fn a_watcher_that_does_not_read_is_ended_and_the_others_see_everything() {
    let options = ServerOptions { send_timeout: Duration::from_mins(10), ..ServerOptions::default() };
    let kitchen = kitchen(options).await;
    let path = format!("{POTS}?watch=true");
    let mut other = kitchen.client().watch(&path).await;
    let _stuck = reads_nothing(&kitchen, GREEDY, &path).await;
    eventually("both watch", || async {
        metric(&kitchen, "apiserver_longrunning_requests", "pots").await == 2
    })
    .await;
    for at in 0..25 {
        let name = format!("large-{at}");
        kitchen.client().create_pot(&name, json!({"dish": "x".repeat(600 * 1024)})).await;
        assert_eq!(other.event().await.1, name);
    }
    let ended = || metric(&kitchen, "apiserver_terminated_watchers_total", "pots");
    assert_eq!(ended().await, 1);
    kitchen.client().post(POTS, &pot("last", json!({"dish": "soup"}))).await.expect(201);
    assert_eq!(other.event().await.1, "last");
}
