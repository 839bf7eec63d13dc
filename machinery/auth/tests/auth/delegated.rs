use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use machinery_auth::{
    AuthError, AuthenticationConfig, Authenticator, CurrentConfig, DelegatedAuthentication, StartError,
    UserInfo,
};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    apiserver::{answering, failure, reviewed},
    certificate::Ca,
};

struct Cluster {
    front_proxy: Ca,
    users: Ca,
    authentication: DelegatedAuthentication,
}

/// A cluster whose kube-apiserver takes every token but `bad` for the user `token`, and is down for the token
/// `down`.
fn cluster() -> Cluster {
    let (front_proxy, users) = (Ca::new("front-proxy-ca"), Ca::new("kubernetes"));
    let data = [
        ("client-ca-file", users.pem.as_str()),
        ("requestheader-client-ca-file", front_proxy.pem.as_str()),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let config = AuthenticationConfig::from_config_map(&BTreeMap::from(data)).unwrap();
    let (client, _) = answering(async |_, review: Value| match review["spec"]["token"].as_str() {
        Some("down") => failure(503, 0),
        Some("bad") => reviewed(review, json!({"error": "unknown"})),
        _ => reviewed(review, json!({"authenticated": true, "user": {"username": "token"}})),
    });
    let authentication = DelegatedAuthentication::new(client, &CurrentConfig::new(config));
    Cluster { front_proxy, users, authentication }
}

fn headers(user: Option<&str>, group: Option<&str>, token: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut add = |name: &'static str, value: Option<String>| {
        if let Some(value) = value {
            headers.insert(name, HeaderValue::from_str(&value).unwrap());
        }
    };
    add("x-remote-user", user.map(ToOwned::to_owned));
    add("x-remote-group", group.map(ToOwned::to_owned));
    add(AUTHORIZATION.as_str(), token.map(|token| format!("Bearer {token}")));
    headers
}

#[tokio::test(start_paused = true)]
async fn the_proxy_comes_before_certificates_and_these_before_tokens() {
    let cluster = cluster();
    let proxy = cluster.front_proxy.client("proxy", "").chain();
    let jane = cluster.users.client("jane", "").chain();
    let cases = [
        ("the proxy's word", headers(Some("remote"), None, Some("good")), proxy.as_slice(), Some("remote")),
        ("the proxy without a word, and a token", headers(None, None, Some("good")), &proxy, Some("token")),
        ("a client that plays proxy", headers(Some("remote"), None, None), &jane, Some("jane")),
        ("a certificate and a bad token", headers(None, None, Some("bad")), &jane, Some("jane")),
        ("headers alone", headers(Some("remote"), None, None), &[], Some("system:anonymous")),
        ("headers and a token", headers(Some("remote"), None, Some("good")), &[], Some("token")),
        ("a bad token", headers(None, None, Some("bad")), &[], None),
        ("the proxy without a word", headers(None, None, None), &proxy, None),
        ("nothing", HeaderMap::new(), &[], Some("system:anonymous")),
    ];
    for (what, headers, peer, name) in cases {
        let user = cluster.authentication.authenticate(&headers, peer).await;
        match name {
            Some(name) => assert_eq!(user.unwrap().unwrap().name, name, "{what}"),
            None => assert!(matches!(user, Err(AuthError::InvalidCredentials { .. })), "{what}: {user:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_authenticated_user_is_in_the_group_of_authenticated_users() {
    let cluster = cluster();
    let proxy = cluster.front_proxy.client("proxy", "").chain();
    let cases = [
        ("by token", headers(None, None, Some("good")), vec!["system:authenticated"]),
        (
            "by a proxy that says so",
            headers(Some("a"), Some("system:authenticated"), None),
            vec!["system:authenticated"],
        ),
        (
            "a stranger to the proxy",
            headers(Some("a"), Some("system:unauthenticated"), None),
            vec!["system:unauthenticated"],
        ),
        ("in a group of its own", headers(Some("a"), Some("g"), None), vec!["g", "system:authenticated"]),
        ("anonymous by name", headers(Some("system:anonymous"), None, None), vec![]),
    ];
    for (what, headers, groups) in cases {
        let user = cluster.authentication.authenticate(&headers, &proxy).await.unwrap().unwrap();
        assert_eq!(user.groups, groups, "{what}");
    }
    let stranger = cluster.authentication.authenticate(&HeaderMap::new(), &[]).await.unwrap().unwrap();
    assert_eq!(stranger, UserInfo::anonymous());
    assert_eq!(stranger.groups, ["system:unauthenticated"]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_outweighs_bad_credentials() {
    let cluster = cluster();
    let stranger = Ca::new("kubernetes").client("jane", "").chain();
    let refused = cluster.authentication.authenticate(&headers(None, None, Some("down")), &stranger).await;
    assert!(matches!(refused, Err(AuthError::Unavailable { .. })), "{refused:?}");
}

/// The list of ConfigMaps with that data in the one that is asked for.
fn config_maps(items: &Value) -> (u16, Value) {
    let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items});
    (200, list)
}

fn config_map(data: &Value) -> Value {
    let metadata = json!({"name": "extension-apiserver-authentication", "namespace": "kube-system"});
    json!([{"metadata": metadata, "data": data}])
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_cannot_be_read_is_tried_for_half_a_minute() {
    for code in [403, 503] {
        let (client, calls) = answering(move |_, _| async move { failure(code, 0) });
        let begun = Instant::now();
        let error = DelegatedAuthentication::start(client, CancellationToken::new()).await.err().unwrap();
        assert!(matches!(error, StartError::Unreadable(Some(_))), "{error:?}");
        assert!(error.to_string().contains("extension-apiserver-authentication-reader"), "{error}");
        assert_eq!(begun.elapsed().as_secs(), 30);
        assert!((3..30).contains(&calls.count()), "{} calls", calls.count());
    }
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_is_missing_or_broken_is_waited_for_half_a_minute() {
    let broken = config_map(&json!({"client-ca-file": "broken"}));
    for (items, unusable) in [(json!([]), false), (broken, true)] {
        let (client, _) = answering(move |call, _| {
            let list = config_maps(&items);
            // After the list comes the watch, on which nothing happens.
            async move { if call == 1 { list } else { std::future::pending().await } }
        });
        let begun = Instant::now();
        let error = DelegatedAuthentication::start(client, CancellationToken::new()).await.err().unwrap();
        assert_eq!(matches!(error, StartError::Unusable(_)), unusable, "{error:?}");
        assert_eq!(matches!(error, StartError::Unreadable(None)), !unusable, "{error:?}");
        assert_eq!(begun.elapsed().as_secs(), 30);
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_waits_for_a_configuration_that_is_late() {
    let users = Ca::new("kubernetes");
    let data = json!({"client-ca-file": users.pem});
    let (client, _) = answering(move |call, _| {
        let late = if call <= 3 { failure(403, 0) } else { config_maps(&config_map(&data)) };
        async move { late }
    });
    let shutdown = CancellationToken::new();
    let _stop = shutdown.clone().drop_guard();
    let authentication = DelegatedAuthentication::start(client, shutdown).await.unwrap();
    let jane = users.client("jane", "").chain();
    assert_eq!(authentication.authenticate(&HeaderMap::new(), &jane).await.unwrap().unwrap().name, "jane");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_shuts_down_does_not_wait_for_its_configuration() {
    let (client, _) = answering(async |_, _| std::future::pending().await);
    let shutdown = CancellationToken::new();
    shutdown.cancel();
    let error = DelegatedAuthentication::start(client, shutdown).await.err().unwrap();
    assert!(matches!(error, StartError::ShutDown), "{error:?}");
}
