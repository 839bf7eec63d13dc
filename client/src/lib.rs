//! Ask for evacuations, and answer them.
//!
//! An app becomes a responder in a few lines. Its pod carries the annotation `evacuation.dev/responders:
//! '[{"name":"self"}]'`, and the app runs a [`Responder`] with its pod's own token. It needs no RBAC of its
//! own.
//!
//! ```no_run
//! use std::time::Duration;
//! use evacuation_client::{Answer, Question, Responder};
//!
//! # async fn app() -> Result<(), Box<dyn std::error::Error>> {
//! let client = evacuation_client::connect().await?;
//! Responder::of_pod(client)
//!     .run(|question: Question| async move {
//!         println!("{} wants this pod to move", question.wanted_by());
//!         Answer::delay(Duration::from_secs(30))
//!     })
//!     .await;
//! # Ok(())
//! # }
//! ```
//!
//! A platform asks for an evacuation with a [`Requester`]:
//!
//! ```no_run
//! use evacuation_client::Requester;
//!
//! # async fn platform() -> Result<(), Box<dyn std::error::Error>> {
//! let client = evacuation_client::connect().await?;
//! let requester = Requester::new(client, "repair.acme.io/rack-7").reason("NodeMaintenance");
//! let evacuation = requester.evacuate("shop", "db-0").await?;
//! println!("{}", evacuation.wait().await?);
//! # Ok(())
//! # }
//! ```
//!
//! `examples/` holds whole programs.

mod answer;
mod asked;
mod backoff;
mod call;
mod connect;
mod connection;
mod error;
mod error_chain;
mod handle;
mod handler;
mod panicked;
mod post;
mod question;
mod requester;
mod responder;
mod session;
mod source;
#[cfg(test)]
mod testing;
mod watching;

pub use answer::Answer;
pub use connect::{ConnectError, connect};
pub use connection::Connection;
pub use error::{RequestError, RespondError, is_admission_denial, is_missing};
pub use error_chain::error_chain;
pub use handle::{End, EvacuationHandle};
pub use handler::Handler;
pub use question::{Canceled, Question};
pub use requester::{REHEARSAL_TTL_SECONDS, Requester};
pub use responder::Responder;
pub use watching::watch;
