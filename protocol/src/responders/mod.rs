//! Responders: their registration for a pod, the activation of one after the other, the question to them,
//! their answers, the expiry of their time, and their acknowledgement of a cancellation.

mod acknowledgement;
mod activation;
mod answer;
mod answer_error;
mod expiry;
mod pace;
mod question;
mod registration;
mod selector;

#[cfg(test)]
pub(crate) use self::selector::work;
pub(crate) use self::{
    acknowledgement::acknowledgement_until,
    activation::{activate, has_no_container, unreadable},
    expiry::{
        answerable_until, asked_since, expiry_time, held_until, is_unreachable, longest_end, reminder_period,
        reminder_time,
    },
    pace::{Turn, turn},
    registration::annotated,
};
pub use self::{
    acknowledgement::{ACKNOWLEDGEMENT_SECONDS, asked_responders, awaits_acknowledgement},
    activation::{NODE_UNREACHABLE, fix_responders},
    answer::{MIN_ENDPOINT_DELAY_SECONDS, answer},
    answer_error::{AnswerError, DelayBound},
    expiry::{EXCHANGE_SECONDS, asked_again_at},
    pace::{may_have_stopped, room},
    question::question,
    registration::{Registered, registered_responders},
    selector::{PackedSelector, selects},
};
