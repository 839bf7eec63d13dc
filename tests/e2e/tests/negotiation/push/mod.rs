//! Apps that are asked over HTTP.

mod failing;
mod handler;
mod reuse;
