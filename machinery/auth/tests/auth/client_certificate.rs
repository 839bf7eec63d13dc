use std::{collections::BTreeMap, sync::Arc};

use http::HeaderMap;
use machinery_auth::{
    AuthError, AuthenticationConfig, Authenticator, ClientCertificateAuthenticator, CurrentConfig,
};

use crate::certificate::Ca;

fn config(ca_pem: &str) -> AuthenticationConfig {
    let data = BTreeMap::from([("client-ca-file".to_owned(), ca_pem.to_owned())]);
    AuthenticationConfig::from_config_map(&data).unwrap()
}

#[tokio::test]
async fn common_name_and_organisation_are_user_and_group() {
    let ca = Ca::new("kubernetes");
    let authenticator = ClientCertificateAuthenticator::new(CurrentConfig::new(config(&ca.pem)));
    let chain = ca.client("jane", "shop:admins").chain();
    let user = authenticator.authenticate(&HeaderMap::new(), &chain).await.unwrap().unwrap();
    assert_eq!((user.name.as_str(), user.groups.as_slice()), ("jane", ["shop:admins".to_owned()].as_slice()));
    assert!(
        user.extra_value("authentication.kubernetes.io/credential-id").unwrap().starts_with("X509SHA256=")
    );
}

#[tokio::test]
async fn a_certificate_that_the_client_ca_does_not_vouch_for_is_refused() {
    let ca = Ca::new("kubernetes");
    let authenticator = ClientCertificateAuthenticator::new(CurrentConfig::new(config(&ca.pem)));
    let cases = [
        ("of another CA", Ca::new("kubernetes").client("jane", "")),
        ("expired", ca.expired_client("jane")),
        ("not valid yet", ca.future_client("jane")),
        ("for servers only", ca.server("jane")),
    ];
    for (what, leaf) in cases {
        let refused = authenticator.authenticate(&HeaderMap::new(), &leaf.chain()).await;
        assert!(matches!(refused, Err(AuthError::InvalidCredentials { .. })), "{what}: {refused:?}");
    }
}

#[tokio::test]
async fn a_client_without_a_certificate_is_not_authenticated() {
    let ca = Ca::new("kubernetes");
    let authenticator = ClientCertificateAuthenticator::new(CurrentConfig::new(config(&ca.pem)));
    assert!(authenticator.authenticate(&HeaderMap::new(), &[]).await.unwrap().is_none());
}

#[tokio::test]
async fn without_a_client_ca_certificates_say_nothing() {
    let current = CurrentConfig::new(AuthenticationConfig::default());
    let authenticator = ClientCertificateAuthenticator::new(Arc::clone(&current));
    let ca = Ca::new("kubernetes");
    let chain = ca.client("jane", "").chain();
    assert!(authenticator.authenticate(&HeaderMap::new(), &chain).await.unwrap().is_none());

    current.replace(config(&ca.pem));
    assert!(authenticator.authenticate(&HeaderMap::new(), &chain).await.unwrap().is_some());
}

#[tokio::test]
async fn the_reason_of_a_refusal_is_what_its_own_ca_says() {
    let (ca, other) = (Ca::expired("kubernetes"), Ca::new("other"));
    let jane = ca.client("jane", "").chain();
    for bundle in [format!("{}{}", ca.pem, other.pem), format!("{}{}", other.pem, ca.pem)] {
        let authenticator = ClientCertificateAuthenticator::new(CurrentConfig::new(config(&bundle)));
        let refused = authenticator.authenticate(&HeaderMap::new(), &jane).await.unwrap_err();
        assert!(refused.to_string().contains("the certificate of its CA is not valid now"), "{refused}");
    }
}
