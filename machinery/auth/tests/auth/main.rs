//! Authentication, authorisation and TLS, through the crate's public API.

mod apiserver;
mod certificate;
mod client_certificate;
mod delegated;
mod handshake;
mod request_header;
mod serving_certificate;
mod subject_access_review;
mod tls;
mod token;
