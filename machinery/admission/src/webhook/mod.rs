//! Admission webhooks. Source of the rules: `k8s.io/apiserver/pkg/admission/plugin/webhook`.

mod call;
mod client;
mod hook;
mod mutating;
mod review;
mod service;
mod validating;

pub(crate) use self::{call::Caller, client::Clients, hook::Hook, mutating::mutate, validating::validate};

#[cfg(test)]
mod tests;
