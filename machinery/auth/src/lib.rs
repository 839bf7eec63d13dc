//! Authentication and authorisation of an aggregated API server, as k8s.io/apiserver delegates them.

mod user;

pub use user::UserInfo;
