//! Admission webhooks. Source of the rules: `k8s.io/apiserver/pkg/admission/plugin/webhook`.

mod call;
mod client;
mod hook;
mod mutating;
mod review;
mod service;
mod validating;

pub(crate) use self::{
    call::Caller,
    client::Clients,
    hook::{Hook, ReviewVersion},
    mutating::mutate,
    review::Answer,
    validating::validate,
};

#[cfg(test)]
mod tests;
