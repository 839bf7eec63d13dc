//! An API whose lists are as long as a test wants, and that can break every watch.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use chrono::Utc;
use controlplane::eventually;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::worst::Objects;

/// Name in the lists of the pods that the API shows of each node, and in no other list.
pub(crate) const ON_A_NODE: &str = "pods on a node";

/// Time limit for the lists of a program on a busy machine.
const PATIENCE: Duration = Duration::from_mins(10);

/// The API. It serves its lists in pages, answers the probe, and has no other objects.
pub(crate) struct LargeApi {
    pub(crate) port: u16,
    state: Arc<State>,
}

struct State {
    /// The objects by the resource's name.
    lists: BTreeMap<&'static str, Objects>,
    /// The resources whose lists were read to their end, since the watches were broken last: a watch follows.
    followed: Mutex<BTreeSet<String>>,
    /// Number of times that the list of a node's pods was read to its end.
    nodes_read: AtomicUsize,
    /// Number of times that the watches were broken.
    breaks: watch::Sender<u32>,
}

impl LargeApi {
    /// Serves those objects.
    pub(crate) async fn serve(lists: impl IntoIterator<Item = (&'static str, Objects)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            lists: lists.into_iter().collect(),
            followed: Mutex::default(),
            nodes_read: AtomicUsize::default(),
            breaks: watch::channel(0).0,
        });
        let served = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&served).connection(stream));
            }
        });
        Self { port, state }
    }

    /// Waits until a program has read every list that has objects.
    pub(crate) async fn is_read(&self) {
        eventually(PATIENCE, "every list is read", || async {
            let followed = self.state.followed.lock().unwrap();
            let missing: Vec<_> = self.state.lists.keys().filter(|name| !followed.contains(**name)).collect();
            if missing.is_empty() { Ok(()) } else { Err(format!("not read: {missing:?}")) }
        })
        .await
        .unwrap();
    }

    /// Waits until a program has read the pods of so many nodes.
    pub(crate) async fn nodes_are_read(&self, count: usize) {
        eventually(PATIENCE, "the pods of every node are read", || async {
            let read = self.state.nodes_read.load(Ordering::Relaxed);
            if read >= count { Ok(()) } else { Err(format!("{read} nodes are read")) }
        })
        .await
        .unwrap();
    }

    /// Breaks every watch in a way after which a client lists again.
    pub(crate) fn expire_watches(&self) {
        self.state.followed.lock().unwrap().clear();
        self.state.breaks.send_modify(|breaks| *breaks += 1);
    }
}

impl State {
    async fn connection(self: Arc<Self>, stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut stream = BufReader::new(stream);
        while let Some((method, target)) = request(&mut stream).await {
            let (path, query) = target.split_once('?').unwrap_or((target.as_str(), ""));
            let resource = path.rsplit('/').next().unwrap_or_default();
            let is_watch = query.contains("watch=true");
            let is_kind = !path.contains("/namespaces/");
            if method == "GET" && is_watch && is_kind {
                return self.watch(&mut stream, resource).await;
            }
            let is_probe = path.ends_with("/namespaces/evacuation-system/evacuations");
            let on_a_node = query.contains("fieldSelector=spec.nodeName");
            let resource = if on_a_node { ON_A_NODE } else { resource };
            let (status, body) = match method.as_str() {
                "GET" if is_kind || is_probe => ("200 OK", self.page(resource, query)),
                _ => ("404 Not Found", NOT_FOUND.to_owned()),
            };
            let (now, length) = (Utc::now().to_rfc3339(), body.len());
            let reply = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nserver-time: {now}\r\ncontent-length: {length}\r\n\r\n{body}",
            );
            if stream.write_all(reply.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn page(&self, resource: &str, query: &str) -> String {
        let number = |name: &str| {
            let value = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse::<usize>().ok())
        };
        let first = number("continue").unwrap_or_default();
        let (count, object) =
            self.lists.get(resource).map_or((0, None), |list| (list.count, Some(&list.object)));
        let end = number("limit").map_or(count, |limit| count.min(first + limit));
        let items: Vec<String> = object.map(|object| (first..end).map(object).collect()).unwrap_or_default();
        if resource == ON_A_NODE && end == count {
            self.nodes_read.fetch_add(1, Ordering::Relaxed);
        }
        let next = if end < count { format!(r#","continue":"{end}""#) } else { String::new() };
        let items = items.join(",");
        format!(r#"{{"metadata":{{"resourceVersion":"9999999"{next}}},"items":[{items}]}}"#)
    }

    /// Reports nothing until the watches are broken.
    async fn watch(&self, stream: &mut BufReader<TcpStream>, resource: &str) {
        let mut breaks = self.breaks.subscribe();
        self.followed.lock().unwrap().insert(resource.to_owned());
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
        if stream.write_all(head.as_bytes()).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        let _ = breaks.changed().await;
        let _ = stream.write_all(EXPIRED.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

const NOT_FOUND: &str = r#"{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","message":"none","code":404}"#;
const EXPIRED: &str = concat!(
    r#"{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Expired","#,
    r#""message":"too old","code":410}}"#,
    "\n"
);

/// Reads a request. `None` at the end of the connection.
async fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).await.ok()?;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? <= 2 {
            break;
        }
        let header = line.to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    stream.read_exact(&mut vec![0; length]).await.ok()?;
    let mut words = first.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}
