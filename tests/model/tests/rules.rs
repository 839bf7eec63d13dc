//! Each rule is needed: without it the model checker finds what the rule is for.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use evacuation_api::RefusalPolicy;
use evacuation_model::{Config, Entry, Law, Limits, Rules, User, explore, worlds};

const AWAKE: Entry =
    Entry { on_refusal: RefusalPolicy::Wait, deadline: None, window: None, caller_deletes_within: None };
const LATER: Entry = Entry { window: Some(2), ..AWAKE };

/// Walks that world under those rules and expects one of those laws to be broken.
fn finds(world: &str, rules: Rules, laws: &[Law]) {
    finds_in(Config { rules, ..named(world) }, laws);
}

fn named(world: &str) -> Config {
    worlds().into_iter().find(|w| w.name == world).unwrap()
}

fn finds_in(world: Config, laws: &[Law]) {
    let found = explore(world);
    let broken: Vec<_> = found.counterexamples.iter().map(|c| c.law).collect();
    assert!(
        broken.iter().any(|law| laws.contains(law)),
        "of {laws:?}, none was broken in {} states, but {broken:?}",
        found.states
    );
}

#[test]
fn without_the_resource_version_a_late_outcome_breaks_the_fence() {
    let rules = Rules { resource_version: false, ..Rules::KEPT };
    finds("leaders", rules, &[Law::Withdrawal]);
}

#[test]
fn without_the_check_of_the_status_a_clock_that_is_ahead_passes_a_responder_over() {
    let rules = Rules { status_check: false, ..Rules::KEPT };
    finds("answers", rules, &[Law::Reason]);
}

#[test]
fn without_the_check_of_the_status_a_mad_controller_asks_two_at_once() {
    let rules = Rules { status_check: false, ..Rules::KEPT };
    finds("madness", rules, &[Law::OneResponder]);
}

#[test]
fn without_the_check_of_the_status_a_clock_that_is_ahead_takes_an_attempt_for_lost_and_breaks_the_fence() {
    let rules = Rules { status_check: false, ..Rules::KEPT };
    finds("jumps", rules, &[Law::Withdrawal]);
}

#[test]
fn without_the_check_of_the_status_a_clock_that_is_ahead_asks_before_the_window_opens() {
    let rules = Rules { status_check: false, ..Rules::KEPT };
    finds("windows", rules, &[Law::Awake]);
}

#[test]
fn without_the_fence_one_waits_for_a_window_and_the_eviction_follows_all_the_same() {
    let rules = Rules { fence: false, ..Rules::KEPT };
    let world = Config {
        // Awake from the start; then it would rather wait.
        users: &[User { first: Some(AWAKE), says: &[LATER], leaves: false }],
        skews: &[0],
        responders: &[],
        rules,
        ..named("windows")
    };
    finds_in(world, &[Law::Awake]);
}

#[test]
fn without_looking_again_nobody_wakes() {
    let rules = Rules { wake: false, ..Rules::KEPT };
    finds("windows", rules, &[Law::Ends]);
}

#[test]
fn without_turns_an_answer_of_one_that_was_not_asked_is_taken() {
    let rules = Rules { turn: false, ..Rules::KEPT };
    finds("answers", rules, &[Law::Invariants, Law::Forward]);
}

#[test]
fn without_the_fence_an_eviction_follows_an_edit_that_gives_up_at_a_time_that_has_passed() {
    let fence = named("fence");
    let stays = User { leaves: false, ..fence.users[0] };
    let users: &'static [User] = vec![stays].leak();
    finds_in(Config { users, rules: Rules { fence: false, ..Rules::KEPT }, ..fence }, &[Law::Withdrawal]);
}

#[test]
fn without_the_fence_an_eviction_follows_a_withdrawal() {
    let rules = Rules { fence: false, ..Rules::KEPT };
    finds("fence", rules, &[Law::Withdrawal]);
}

#[test]
fn without_ownership_one_removes_the_entry_of_another() {
    let rules = Rules { ownership: false, ..Rules::KEPT };
    finds("people", rules, &[Law::Ownership]);
}

#[test]
fn without_the_end_one_joins_what_has_ended() {
    let rules = Rules { end: false, ..Rules::KEPT };
    finds("people", rules, &[Law::Forward]);
}

#[test]
fn without_the_claim_on_the_pod_two_evacuations_are_active() {
    let rules = Rules { one_active: false, ..Rules::KEPT };
    finds("again", rules, &[Law::OneEvacuation]);
}

#[test]
fn without_the_record_of_the_attempt_an_eviction_follows_a_withdrawal() {
    let rules = Rules { record_first: false, ..Rules::KEPT };
    finds("fence", rules, &[Law::Withdrawal]);
}

#[test]
fn an_attempt_taken_for_lost_at_once_breaks_the_fence_unless_the_server_sees_to_it() {
    let rules = Rules { resolve_late: false, status_check: false, ..Rules::KEPT };
    finds("fence", rules, &[Law::Withdrawal]);
}

#[test]
fn without_telling_attempts_apart_an_eviction_follows_a_withdrawal() {
    let leaders = named("leaders");
    // One leader's attempt meets a budget that is spent; that of the other, which is still on its way, is
    // taken for it.
    let world = Config {
        instants: &[0, 10],
        skews: &[0],
        budget: Some(true),
        limits: Limits { shifts: 2, ..leaders.limits },
        rules: Rules { attempts_apart: false, ..Rules::KEPT },
        ..leaders
    };
    finds_in(world, &[Law::Withdrawal]);
}

#[test]
fn without_the_end_of_an_attempt_an_eviction_follows_a_withdrawal() {
    let rules = Rules { post_in_time: false, ..Rules::KEPT };
    finds("leaders", rules, &[Law::Withdrawal]);
}

#[test]
fn without_looking_again_a_silent_responder_holds_the_pod_for_ever() {
    let rules = Rules { wake: false, ..Rules::KEPT };
    finds("deadlines", rules, &[Law::Ends]);
}

#[test]
fn an_attempt_taken_for_lost_at_once_is_refused_by_the_server() {
    let world = Config { rules: Rules { resolve_late: false, ..Rules::KEPT }, ..named("fence") };
    let found = explore(Config { limits: Limits { losses: 0, ..world.limits }, ..world });
    assert!(found.counterexamples.is_empty(), "{}", found.counterexamples[0]);
}

#[test]
fn a_reminder_that_counts_from_when_it_was_due_takes_the_time_of_an_endpoint_that_was_reminded_late() {
    let rules = Rules { counts_delivery: false, ..Rules::KEPT };
    finds("reminders", rules, &[Law::Told]);
}

#[test]
fn an_endpoint_is_passed_over_whose_reply_is_on_its_way_unless_the_controller_keeps_it_in_mind() {
    let rules = Rules { keeps_replies: false, ..Rules::KEPT };
    finds("questions", rules, &[Law::Told]);
}
