//! Authentication and authorisation of an aggregated API server, as k8s.io/apiserver delegates them.
//!
//! # Flow
//!
//! [`server_config`] asks clients for a certificate, and serves a [`ServingCertificate`] that follows its
//! files. [`DelegatedAuthentication`] identifies the caller of each request by its headers and the client's
//! certificate. [`SubjectAccessReviewAuthorizer`] authorises that user. A server calls it once for the
//! request itself, and again for further acts that the request leads to.
//!
//! ```no_run
//! # use machinery_auth::*;
//! # async fn parts(client: kube::Client, shutdown: tokio_util::sync::CancellationToken)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let certificate = ServingCertificate::start("tls.crt", "tls.key", shutdown.clone()).await?;
//! let tls = server_config(certificate)?;
//! let authenticator = DelegatedAuthentication::start(client.clone(), shutdown).await?;
//! let authorizer = SubjectAccessReviewAuthorizer::new(client);
//! # Ok(())
//! # }
//! ```
//!
//! # Assumptions
//!
//! The server's own user has the cluster role `system:auth-delegator`, and the role
//! `extension-apiserver-authentication-reader` in `kube-system`.

mod attributes;
mod authenticator;
mod authorizer;
mod ca_bundle;
mod client_certificate;
mod config;
mod delegated;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod open_files;
mod request_header;
mod review;
mod serving_certificate;
mod subject;
mod subject_access_review;
mod tls;
mod token;
mod user;

pub use attributes::{Attributes, ResourceAttributes};
pub use authenticator::{Anonymous, AuthenticatedGroup, Authenticator, AuthenticatorUnion};
pub use authorizer::{AlwaysAllow, Authorizer, Decision, Verdict};
pub use ca_bundle::{CaBundle, CaBundleError};
pub use client_certificate::ClientCertificateAuthenticator;
pub use config::{AuthenticationConfig, ConfigError, CurrentConfig, RequestHeaderConfig};
pub use delegated::{DelegatedAuthentication, StartError};
pub use error::AuthError;
pub use open_files::raise_open_files;
pub use request_header::RequestHeaderAuthenticator;
pub use serving_certificate::{ServingCertificate, ServingCertificateError};
pub use subject_access_review::SubjectAccessReviewAuthorizer;
pub use tls::{AnyClientCertificate, HANDSHAKE_TIMEOUT, MAX_HANDSHAKES, server_config};
pub use token::{TokenAuthenticator, bearer_token};
pub use user::{
    ANONYMOUS_USER, AUTHENTICATED_GROUP, PRIVILEGED_GROUP, UNAUTHENTICATED_GROUP, UserInfo, flow,
};
