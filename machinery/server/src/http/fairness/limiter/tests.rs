use futures::{FutureExt, future::join_all};

use super::*;
use crate::http::fairness::limits::Waiting;

const PATIENCE: Duration = Duration::from_secs(5);

fn caller(name: &str) -> Caller {
    Caller { name: name.to_owned(), namespace: None, rank: Rank::Ordinary }
}

fn ranked(name: &str, rank: Rank) -> Caller {
    Caller { rank, ..caller(name) }
}

fn of_namespace(name: &str, namespace: &str) -> Caller {
    Caller { namespace: Some(namespace.to_owned()), ..caller(name) }
}

fn limiter(limits: Limits) -> Limiter {
    Limiter::new("requests", limits, &Metrics::new())
}

fn one() -> Claim {
    Claim::one(false)
}

fn assert_refused(result: Result<Permit, ApiError>) {
    assert_eq!(result.expect_err("a refusal").reason(), Reason::TooManyRequests);
}

#[test]
fn a_caller_that_takes_all_it_can_leaves_the_rest_to_others() {
    let limiter = limiter(Limits::shares_of(16));
    let mut taken: Vec<_> =
        (0..2).map(|_| limiter.try_enter(&caller("greedy"), one()).expect("own")).collect();
    assert_refused(limiter.try_enter(&caller("greedy"), one()));
    let _other = limiter.try_enter(&caller("jane"), one()).expect("a share of its own");
    taken.pop();
    drop(limiter.try_enter(&caller("greedy"), one()).expect("free again"));
}

#[test]
fn the_service_accounts_of_one_namespace_leave_the_rest_to_others() {
    let limiter = limiter(Limits::shares_of(16));
    let pod = |at: usize| of_namespace(&format!("pod-{at}"), "shop");
    let _taken: Vec<_> = (0..4).map(|at| limiter.try_enter(&pod(at), one()).expect("a slot")).collect();
    assert_refused(limiter.try_enter(&pod(5), one()));
    let _other = limiter.try_enter(&of_namespace("pod", "bank"), one()).expect("another namespace");
}

#[test]
fn the_reserve_is_for_priority_callers_and_administrators_need_no_permit() {
    let limiter = limiter(Limits::shares_of(16));
    let _taken: Vec<_> = (0..14).map(|at| limiter.try_enter(&caller(&at.to_string()), one())).collect();
    assert_refused(limiter.try_enter(&caller("late"), one()));
    let controller = ranked("controller", Rank::Priority);
    let _reserved = [(); 2].map(|()| limiter.try_enter(&controller, one()).expect("the reserve"));
    assert_refused(limiter.try_enter(&controller, one()));
    drop(limiter.try_enter(&ranked("admin", Rank::Exempt), one()).expect("always"));
}

#[test]
fn requests_for_views_leave_a_quarter_to_the_stored_kinds() {
    let limits = Limits { of_caller_on_views: 2, reserve: 0, ..Limits::shares_of(8) };
    let limiter = limiter(Limits { of_caller: 8, ..limits });
    let view = |name: &str| limiter.try_enter(&caller(name), Claim::one(true));
    let held: Vec<_> = ["a", "a", "b", "b", "c", "c"].map(|name| view(name).expect("a slot")).into();
    assert_refused(view("a"));
    assert_refused(view("d"));
    let _watches = [(); 2].map(|()| limiter.try_enter(&caller("controller"), one()).expect("a slot"));
    drop(held);
    drop(view("d").expect("free again"));
}

#[test]
fn bytes_are_counted_and_a_caller_can_always_have_one_request() {
    let limiter = limiter(Limits::shares_of(80));
    let bytes = |amount: usize| Claim { amount, of_view: false };
    let large = limiter.try_enter(&caller("jane"), bytes(30)).expect("the first, whatever its size");
    assert_refused(limiter.try_enter(&caller("jane"), bytes(1)));
    let _small = limiter.try_enter(&caller("joe"), bytes(10)).expect("its share");
    assert_refused(limiter.try_enter(&caller("jim"), bytes(31)));
    drop(large);
    drop(limiter.try_enter(&caller("jim"), bytes(31)).expect("free again"));
}

#[test]
fn what_an_administrator_uses_is_not_taken_from_others() {
    let limiter = limiter(Limits { reserve: 0, ..Limits::shares_of(8) });
    let admin = ranked("admin", Rank::Exempt);
    let _used: Vec<_> = (0..20).map(|_| limiter.try_enter(&admin, one()).expect("always")).collect();
    drop(limiter.try_enter(&caller("jane"), one()).expect("her share"));
}

fn waiting(of_caller: usize) -> Waiting {
    Waiting { total: 1000, of_flow: 2 * of_caller, of_caller }
}

#[tokio::test(start_paused = true)]
async fn a_caller_over_its_share_waits_in_bounded_number_and_time() {
    let limiter = limiter(Limits { waiting: waiting(1), ..Limits::shares_of(8) });
    let greedy = caller("greedy");
    let first = limiter.enter(&greedy, one(), PATIENCE).await.expect("a slot");
    let mut second = Box::pin(limiter.enter(&greedy, one(), PATIENCE));
    assert!((&mut second).now_or_never().is_none(), "waits");
    assert_refused(limiter.enter(&greedy, one(), PATIENCE).await);
    drop(limiter.enter(&caller("jane"), one(), PATIENCE).await.expect("others do not wait"));
    drop(first);
    let second = second.await.expect("handed over");
    let started = Instant::now();
    assert_refused(limiter.enter(&greedy, one(), PATIENCE).await);
    assert_eq!(started.elapsed(), PATIENCE);
    drop(second);
    drop(limiter.enter(&greedy, one(), PATIENCE).await.expect("free again"));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiting_requests_delay_another_flow_by_one_turn() {
    let waiting = Waiting { total: 2000, of_flow: 1000, of_caller: 1000 };
    let limits = Limits { of_caller: 8, of_namespace: 8, reserve: 0, waiting, ..Limits::shares_of(8) };
    let limiter = limiter(limits);
    let greedy = of_namespace("greedy", "shop");
    let mut held: Vec<_> = (0..8).map(|_| limiter.try_enter(&greedy, one()).expect("a slot")).collect();
    let mut queued: Vec<_> = (0..1000).map(|_| Box::pin(limiter.enter(&greedy, one(), PATIENCE))).collect();
    assert!(queued.iter_mut().all(|request| request.now_or_never().is_none()), "all wait");
    let jane = caller("jane");
    let mut jane = Box::pin(limiter.enter(&jane, one(), PATIENCE));
    assert!((&mut jane).now_or_never().is_none(), "she waits, too");
    held.pop();
    assert!((&mut jane).now_or_never().is_none(), "one turn of the other flow");
    held.pop();
    drop((&mut jane).now_or_never().expect("her turn").expect("a slot"));
}

#[tokio::test(start_paused = true)]
async fn a_priority_caller_that_waits_takes_the_first_place_although_others_wait_longer() {
    let limits = Limits { waiting: waiting(16), ..Limits::shares_of(16) };
    let limiter = limiter(limits);
    let controller = ranked("controller", Rank::Priority);
    let mut taken: Vec<_> =
        (0..14).map(|at| limiter.try_enter(&caller(&at.to_string()), one()).expect("a slot")).collect();
    let _reserve = [(); 2].map(|()| limiter.try_enter(&controller, one()).expect("the reserve"));
    let jane = caller("jane");
    let mut ordinary = Box::pin(limiter.enter(&jane, one(), PATIENCE));
    assert!((&mut ordinary).now_or_never().is_none());
    let mut urgent = Box::pin(limiter.enter(&controller, one(), PATIENCE));
    assert!((&mut urgent).now_or_never().is_none());
    taken.truncate(13);
    let permit = urgent.now_or_never().expect("at once").expect("a slot");
    assert!((&mut ordinary).now_or_never().is_none(), "the reserve is not for others");
    drop(permit);
    assert!((&mut ordinary).now_or_never().is_none(), "two of the reserve are in use");
    taken.truncate(11);
    drop(ordinary.now_or_never().expect("at once").expect("a slot"));
}

#[tokio::test(start_paused = true)]
async fn the_service_accounts_of_a_namespace_wait_for_their_share_and_others_pass() {
    let limiter = limiter(Limits { waiting: waiting(8), ..Limits::shares_of(16) });
    let pod = |at: usize| of_namespace(&format!("pod-{at}"), "shop");
    let mut taken: Vec<_> = (0..4).map(|at| limiter.try_enter(&pod(at), one()).expect("a slot")).collect();
    let late = pod(5);
    let mut waits = Box::pin(limiter.enter(&late, one(), PATIENCE));
    assert!((&mut waits).now_or_never().is_none(), "waits");
    drop(limiter.enter(&of_namespace("pod", "bank"), one(), PATIENCE).await.expect("another namespace"));
    taken.pop();
    drop(waits.await.expect("its turn"));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waited_counts_against_its_own_limits() {
    let limiter = limiter(Limits { views: 1, waiting: waiting(4), ..Limits::shares_of(8) });
    let (greedy, jane) = (caller("greedy"), caller("jane"));
    let read = limiter.enter(&greedy, one(), PATIENCE).await.expect("a slot");
    let mut view = Box::pin(limiter.enter(&greedy, Claim::one(true), PATIENCE));
    assert!((&mut view).now_or_never().is_none(), "waits");
    drop(read);
    let view = view.await.expect("admitted");
    let mut second = Box::pin(limiter.enter(&jane, Claim::one(true), PATIENCE));
    assert!((&mut second).now_or_never().is_none(), "waits for the one slot of views");
    drop(limiter.enter(&jane, one(), PATIENCE).await.expect("a read does not wait behind the view"));
    drop(view);
    drop(second.await.expect("admitted"));
}

#[tokio::test(start_paused = true)]
async fn requests_that_left_while_they_waited_take_nothing() {
    let limiter = limiter(Limits { waiting: waiting(2), ..Limits::shares_of(8) });
    let greedy = caller("greedy");
    let first = limiter.enter(&greedy, one(), PATIENCE).await.expect("a slot");
    let mut left = Box::pin(limiter.enter(&greedy, one(), PATIENCE));
    let mut stays = Box::pin(limiter.enter(&greedy, one(), PATIENCE));
    assert!((&mut left).now_or_never().is_none() && (&mut stays).now_or_never().is_none());
    assert_refused(limiter.enter(&greedy, one(), PATIENCE).await);
    drop(left);
    let mut next = Box::pin(limiter.enter(&greedy, one(), PATIENCE));
    assert!((&mut next).now_or_never().is_none(), "the place is free at once");
    drop(next);
    drop(first);
    let permit = stays.await.expect("handed over");
    let mut handed = Box::pin(limiter.enter(&greedy, one(), PATIENCE));
    assert!((&mut handed).now_or_never().is_none());
    drop(permit);
    // Dropped after the permit was handed over, before it was taken.
    drop(handed);
    let state = limiter.state();
    assert!(state.usage.is_empty() && state.queues.is_empty());
}

#[tokio::test]
async fn nothing_is_kept_of_callers_that_left() {
    let limiter = limiter(Limits { waiting: waiting(8), ..Limits::shares_of(8) });
    let enter = |at: usize| {
        let limiter = limiter.clone();
        async move {
            let pod = of_namespace(&format!("pod-{}", at % 3), "shop");
            limiter.enter(&pod, one(), PATIENCE).await.map(drop)
        }
    };
    join_all((0..20).map(enter)).await;
    let state = limiter.state();
    assert!(state.usage.is_empty() && state.queues.is_empty());
}
