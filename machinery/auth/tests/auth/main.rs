//! Authentication, authorisation and TLS, through the crate's public API.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test fails by panic")]

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
