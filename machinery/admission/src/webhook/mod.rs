//! Admission webhooks. Source of the rules: `k8s.io/apiserver/pkg/admission/plugin/webhook`.

mod call;
mod client;
mod hook;
mod mutating;
mod review;
mod service;
mod token;
mod validating;

pub use self::token::TokenAccount;
pub(crate) use self::{
    call::Caller,
    client::Clients,
    hook::{Hook, ReviewVersion},
    mutating::mutate,
    review::Answer,
    token::Tokens,
    validating::validate,
};

#[cfg(test)]
mod tests;
