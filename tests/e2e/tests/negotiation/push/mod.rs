//! Apps that are asked over HTTP.

mod failing;
mod forms;
mod handler;
mod reuse;
