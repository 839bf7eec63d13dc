//! The acts, one a file. Each checks at its end that the answers were honoured.

mod accepted;
mod cast;
mod drained;
mod night;
mod overridden;
mod rack;
mod replaced;
mod shared_budget;
mod unaware;
mod withdrawn;

pub(crate) use accepted::accepted;
pub(crate) use cast::Cast;
pub(crate) use drained::drained;
pub(crate) use night::night;
pub(crate) use overridden::overridden;
pub(crate) use rack::{command as rack_command, rack};
pub(crate) use replaced::replaced;
pub(crate) use shared_budget::shared_budget;
pub(crate) use unaware::unaware;
pub(crate) use withdrawn::withdrawn;

use evacuation_api::{Answer, Evacuation};

/// The app's answer so far.
fn answer(evacuation: &Evacuation) -> Option<Answer> {
    let mut responders = evacuation.status.iter().flat_map(|s| s.responders.iter().flatten());
    responders.find_map(|responder| responder.answer)
}
