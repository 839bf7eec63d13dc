//! The agent at an API that accepts connections and closes them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic"
)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

const KUBECONFIG: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {"server": "http://ADDRESS"}}],
    "users": [{"name": "a", "user": {}}]}"#;

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn readyz(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    Some(reply)
}

#[test]
fn the_side_car_reports_an_outage_in_one_line_and_in_its_readiness() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = listener.local_addr().unwrap();
    let (accepted, connections) = mpsc::channel();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            drop(connection);
            if accepted.send(()).is_err() {
                return;
            }
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::write(&config, KUBECONFIG.replace("ADDRESS", &api.to_string())).unwrap();
    let health = SocketAddr::from((Ipv4Addr::LOCALHOST, controlplane::free_port().unwrap()));
    let agent = Command::new(env!("CARGO_BIN_EXE_evacuation-agent"))
        .args(["run", "--ready-needs-api", "--health-address", &health.to_string(), "--exec", "true"])
        .env("KUBECONFIG", config)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut agent = Agent(agent);
    let log = agent.0.stderr.take().unwrap();
    for _ in 0..5 {
        connections.recv_timeout(Duration::from_mins(1)).unwrap();
    }
    let begun = Instant::now();
    let reply = loop {
        let reply = readyz(health).unwrap_or_default();
        if reply.contains("evacuations cannot be watched") {
            break reply;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{reply}");
        std::thread::yield_now();
    };
    assert!(reply.starts_with("HTTP/1.1 503 "), "{reply}");
    drop(agent);
    let lines: Vec<String> = BufReader::new(log).lines().map(Result::unwrap).collect();
    let outage: Vec<_> =
        lines.iter().filter(|line| line.contains("the watch of evacuations failed")).collect();
    assert_eq!((outage.len(), lines.len()), (1, 2), "{lines:#?}");
}
