use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};
use machinery_auth::{
    AuthError, AuthenticationConfig, Authenticator, CurrentConfig, RequestHeaderAuthenticator,
};

use crate::certificate::Ca;

fn config(ca_pem: &str, allowed_names: &str) -> AuthenticationConfig {
    let data = [
        ("requestheader-client-ca-file", ca_pem),
        ("requestheader-allowed-names", allowed_names),
        ("requestheader-username-headers", r#"["X-Remote-User", "X-Other-User"]"#),
        ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group", "X-Other-Group"]"#),
        ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
    ];
    let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
    AuthenticationConfig::from_config_map(&BTreeMap::from(data)).unwrap()
}

fn authenticator(ca: &Ca, allowed_names: &str) -> RequestHeaderAuthenticator {
    RequestHeaderAuthenticator::new(CurrentConfig::new(config(&ca.pem, allowed_names)))
}

fn headers(headers: &[(&str, &[u8])]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    map
}

fn jane() -> HeaderMap {
    headers(&[("X-Remote-User", b"jane")])
}

#[tokio::test]
async fn the_proxys_headers_name_the_user() {
    let ca = Ca::new("front-proxy-ca");
    let proxy = ca.client("front-proxy-client", "kubernetes");
    let headers = headers(&[
        ("X-Remote-User", b"system:serviceaccount:shop:db"),
        ("X-Remote-Uid", b"u-1"),
        ("X-Remote-Group", b"system:serviceaccounts"),
        ("X-Remote-Group", b""),
        ("X-Remote-Group", b"system:authenticated"),
        ("X-Other-Group", b"other"),
        ("X-Remote-Extra-Authentication.kubernetes.io%2FPod-Name", b"db-0"),
        ("X-Remote-Extra-scopes", b"read"),
        ("X-Remote-Extra-Scopes", b"write"),
        ("X-Unrelated", b"x"),
    ]);
    let authenticator = authenticator(&ca, r#"["front-proxy-client"]"#);
    let user = authenticator.authenticate(&headers, &proxy.chain()).await.unwrap().unwrap();
    assert_eq!(user.name, "system:serviceaccount:shop:db");
    assert_eq!(user.uid.as_deref(), Some("u-1"));
    assert_eq!(user.groups, ["system:serviceaccounts", "system:authenticated", "other"]);
    assert_eq!(user.extra_value("authentication.kubernetes.io/pod-name"), Some("db-0"));
    assert_eq!(user.extra["scopes"], ["read", "write"]);
    assert_eq!(user.extra.len(), 2);
}

#[tokio::test]
async fn without_a_certificate_the_headers_say_nothing() {
    let authenticator = authenticator(&Ca::new("front-proxy-ca"), "[]");
    assert!(authenticator.authenticate(&jane(), &[]).await.unwrap().is_none());
}

#[tokio::test]
async fn without_the_proxys_certificate_the_headers_are_not_believed() {
    let (ca, other) = (Ca::new("front-proxy-ca"), Ca::new("front-proxy-ca"));
    let intermediate = ca.intermediate("front-proxy-intermediate");
    let serving = ca.server("front-proxy-client");
    let cases = [
        ("of another CA with the same name", other.client("front-proxy-client", "").chain()),
        ("with another common name", ca.client("jane", "").chain()),
        ("expired", ca.expired_client("front-proxy-client").chain()),
        ("not valid yet", ca.future_client("front-proxy-client").chain()),
        ("for servers only", serving.chain()),
        ("of an intermediate that was not sent", intermediate.client("front-proxy-client", "").chain()),
        ("the CA's own", vec![ca.certificate.clone()]),
        ("no certificate at all", vec![vec![1, 2, 3].into()]),
    ];
    let authenticator = authenticator(&ca, r#"["front-proxy-client"]"#);
    for (what, chain) in cases {
        let refused = authenticator.authenticate(&jane(), &chain).await;
        assert!(matches!(refused, Err(AuthError::InvalidCredentials { .. })), "{what}: {refused:?}");
    }
}

#[tokio::test]
async fn an_intermediate_that_was_sent_leads_to_the_ca() {
    let ca = Ca::new("front-proxy-ca");
    let intermediate = ca.intermediate("front-proxy-intermediate");
    let mut chain = intermediate.client("front-proxy-client", "").chain();
    chain.push(intermediate.certificate);
    let authenticator = authenticator(&ca, r#"["front-proxy-client"]"#);
    assert!(authenticator.authenticate(&jane(), &chain).await.unwrap().is_some());
}

#[tokio::test]
async fn an_expired_ca_authenticates_no_proxy() {
    let ca = Ca::expired("front-proxy-ca");
    let proxy = ca.client("front-proxy-client", "");
    let refused = authenticator(&ca, "[]").authenticate(&jane(), &proxy.chain()).await;
    assert!(matches!(refused, Err(AuthError::InvalidCredentials { .. })), "{refused:?}");
}

#[tokio::test]
async fn an_empty_list_of_names_allows_any() {
    let ca = Ca::new("front-proxy-ca");
    for allowed in ["[]", ""] {
        let authenticator = authenticator(&ca, allowed);
        let anyone = ca.client("anyone", "").chain();
        assert!(authenticator.authenticate(&jane(), &anyone).await.unwrap().is_some(), "{allowed}");
    }
}

#[tokio::test]
async fn a_ca_that_was_rotated_is_honoured_from_then_on() {
    let (old, new) = (Ca::new("front-proxy-ca"), Ca::new("front-proxy-ca"));
    let (before, after) = (old.client("proxy", "").chain(), new.client("proxy", "").chain());
    let current = CurrentConfig::new(config(&old.pem, "[]"));
    let authenticator = RequestHeaderAuthenticator::new(Arc::clone(&current));
    assert!(authenticator.authenticate(&jane(), &before).await.is_ok());
    assert!(authenticator.authenticate(&jane(), &after).await.is_err());

    // Both are trusted while the proxies change.
    let both = format!("{}{}", old.pem, new.pem);
    current.replace(config(&both, "[]"));
    assert!(authenticator.authenticate(&jane(), &before).await.is_ok());
    assert!(authenticator.authenticate(&jane(), &after).await.is_ok());

    current.replace(config(&new.pem, "[]"));
    assert!(authenticator.authenticate(&jane(), &before).await.is_err());
    assert!(authenticator.authenticate(&jane(), &after).await.is_ok());
}

#[tokio::test]
async fn the_first_name_that_is_not_empty_counts() {
    type Sent<'a> = &'a [(&'a str, &'a [u8])];
    let ca = Ca::new("front-proxy-ca");
    let authenticator = authenticator(&ca, "[]");
    let chain = ca.client("proxy", "").chain();
    let cases: [(Sent<'_>, Option<&str>); 5] = [
        (&[("X-Remote-User", b"jane"), ("X-Remote-User", b"mallory")], Some("jane")),
        (&[("X-Remote-User", b""), ("X-Other-User", b"joe")], Some("joe")),
        (&[("X-Remote-User", "jürgen".as_bytes())], Some("jürgen")),
        (&[("X-Remote-User", b"")], None),
        (&[("X-Remote-Group", b"system:masters")], None),
    ];
    for (sent, name) in cases {
        let user = authenticator.authenticate(&headers(sent), &chain).await.unwrap();
        assert_eq!(user.map(|user| user.name).as_deref(), name, "{sent:?}");
    }
}

#[tokio::test]
async fn a_header_that_is_not_utf8_is_refused() {
    let ca = Ca::new("front-proxy-ca");
    let authenticator = authenticator(&ca, "[]");
    for name in ["X-Remote-User", "X-Remote-Group", "X-Remote-Extra-a"] {
        let mut headers = headers(&[(name, b"\xff")]);
        headers.append("X-Remote-User", HeaderValue::from_static("jane"));
        let refused = authenticator.authenticate(&headers, &ca.client("proxy", "").chain()).await;
        assert!(matches!(refused, Err(AuthError::InvalidCredentials { .. })), "{name}: {refused:?}");
    }
}
