//! Queues of waiting requests: one for each caller, in turns.

use std::collections::VecDeque;

use super::limits::Waiting;

/// Waiting requests. Flows take turns, and in a flow its callers. A caller's requests stay in their order.
#[derive(Debug)]
pub(super) struct Queues<T> {
    /// The next turn is the first flow's.
    flows: VecDeque<Flow<T>>,
    waiting: usize,
    /// Waiting requests of priority users.
    with_priority: usize,
    last: u64,
}

#[derive(Debug)]
struct Flow<T> {
    name: String,
    /// The next turn is the first line's.
    lines: VecDeque<Line<T>>,
    waiting: usize,
}

/// The caller of a request that is to wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queuer<'a> {
    pub(super) flow: &'a str,
    pub(super) caller: &'a str,
    pub(super) has_priority: bool,
}

#[derive(Debug)]
struct Line<T> {
    caller: String,
    /// True for a priority user's: its requests are not displaced.
    has_priority: bool,
    requests: VecDeque<(u64, T)>,
}

/// Place of a request in the queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) flow: String,
    pub(super) caller: String,
    number: u64,
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Self { flows: VecDeque::new(), waiting: 0, with_priority: 0, last: 0 }
    }
}

impl<T> Queues<T> {
    /// Adds a request at the end of its caller's line. Returns its place, and a request that it
    /// displaced: the newest of the flow with most, when there is no room and that flow has more than
    /// this one. A priority user displaces others in any case, and is not displaced.
    ///
    /// # Errors
    ///
    /// Returns the request when there is no room.
    pub(super) fn push(
        &mut self,
        queuer: Queuer<'_>,
        request: T,
        most: Waiting,
    ) -> Result<(Place, Option<T>), T> {
        let Queuer { flow, caller, has_priority } = queuer;
        let own = self.flows.iter().find(|found| found.name == flow);
        let line = own.and_then(|own| own.lines.iter().find(|line| line.caller == caller));
        let of_flow = own.map_or(0, |own| own.waiting);
        if line.map_or(0, |line| line.requests.len()) >= most.of_caller || of_flow >= most.of_flow {
            return Err(request);
        }
        let mut displaced = None;
        if self.waiting >= most.total {
            displaced = self.displace(if has_priority { 0 } else { of_flow + 1 });
            if displaced.is_none() {
                return Err(request);
            }
        }
        self.last += 1;
        let place = Place { flow: flow.to_owned(), caller: caller.to_owned(), number: self.last };
        self.line(queuer).push_back((place.number, request));
        self.waiting += 1;
        self.with_priority += usize::from(has_priority);
        Ok((place, displaced))
    }

    /// Returns the line of a caller, which is made if it is new.
    fn line(&mut self, queuer: Queuer<'_>) -> &mut VecDeque<(u64, T)> {
        let Queuer { flow, caller, has_priority } = queuer;
        let at = self.flows.iter().position(|found| found.name == flow).unwrap_or_else(|| {
            self.flows.push_back(Flow { name: flow.to_owned(), lines: VecDeque::new(), waiting: 0 });
            self.flows.len() - 1
        });
        #[allow(
            clippy::indexing_slicing,
            reason = "the position was found, or is that of the flow just made"
        )]
        let flow = &mut self.flows[at];
        flow.waiting += 1;
        let at = flow.lines.iter().position(|line| line.caller == caller).unwrap_or_else(|| {
            let requests = VecDeque::new();
            flow.lines.push_back(Line { caller: caller.to_owned(), has_priority, requests });
            flow.lines.len() - 1
        });
        #[allow(
            clippy::indexing_slicing,
            reason = "the position was found, or is that of the line just made"
        )]
        &mut flow.lines[at].requests
    }

    /// Removes the newest request of the flow with most, if these are more than `than`. Those of priority
    /// users do not count.
    fn displace(&mut self, than: usize) -> Option<T> {
        let ordinary = |flow: &Flow<T>| -> usize {
            flow.lines.iter().filter(|line| !line.has_priority).map(|line| line.requests.len()).sum()
        };
        let counted = self.flows.iter().map(|flow| (ordinary(flow), flow));
        let (_, largest) = counted.filter(|(count, _)| *count > than).max_by_key(|(count, _)| *count)?;
        let newest = |line: &Line<T>| line.requests.back().map_or(0, |(number, _)| *number);
        let lines = largest.lines.iter().filter(|line| !line.has_priority);
        let line = lines.max_by_key(|line| newest(line))?;
        let place = Place { flow: largest.name.clone(), caller: line.caller.clone(), number: newest(line) };
        self.remove(&place)
    }

    /// Removes a request, if it is still there.
    pub(super) fn remove(&mut self, place: &Place) -> Option<T> {
        let at = self.flows.iter().position(|flow| flow.name == place.flow)?;
        let flow = self.flows.get_mut(at)?;
        let line_at = flow.lines.iter().position(|line| line.caller == place.caller)?;
        let line = flow.lines.get_mut(line_at)?;
        let request_at = line.requests.iter().position(|(number, _)| *number == place.number)?;
        let (_, request) = line.requests.remove(request_at)?;
        self.with_priority -= usize::from(line.has_priority);
        if line.requests.is_empty() {
            flow.lines.remove(line_at);
        }
        flow.waiting -= 1;
        if flow.waiting == 0 {
            self.flows.remove(at);
        }
        self.waiting -= 1;
        Some(request)
    }

    /// Returns true when a priority user has a waiting request.
    pub(super) fn has_priority(&self) -> bool {
        self.with_priority > 0
    }

    /// Removes the request whose turn it is, of those that are admissible. Its flow and its caller then wait
    /// for all others. It looks at one request of each caller until one is admissible.
    pub(super) fn next(&mut self, mut admissible: impl FnMut(&T) -> bool) -> Option<T> {
        let (at, line_at) = self.flows.iter().enumerate().find_map(|(at, flow)| {
            let first = |line: &Line<T>| line.requests.front().is_some_and(|(_, first)| admissible(first));
            Some((at, flow.lines.iter().position(first)?))
        })?;
        let mut flow = self.flows.remove(at)?;
        let mut line = flow.lines.remove(line_at)?;
        let request = line.requests.pop_front();
        self.with_priority -= usize::from(line.has_priority);
        if !line.requests.is_empty() {
            flow.lines.push_back(line);
        }
        flow.waiting -= 1;
        if flow.waiting > 0 {
            self.flows.push_back(flow);
        }
        self.waiting -= 1;
        request.map(|(_, request)| request)
    }

    /// Returns true when nobody waits.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Waiting = Waiting { total: 2000, of_flow: 1000, of_caller: 1000 };

    fn of<'a>(flow: &'a str, caller: &'a str) -> Queuer<'a> {
        Queuer { flow, caller, has_priority: false }
    }

    fn push(queues: &mut Queues<String>, flow: &str, caller: &str, request: &str) -> Place {
        queues.push(of(flow, caller), request.to_owned(), MOST).expect("a place").0
    }

    fn all(queues: &mut Queues<String>) -> Vec<String> {
        std::iter::from_fn(|| queues.next(|_| true)).collect()
    }

    #[test]
    fn a_thousand_requests_of_a_flow_delay_that_of_another_by_one_turn() {
        let mut queues = Queues::default();
        for at in 0..1000 {
            push(&mut queues, "greedy", "greedy", &format!("greedy {at}"));
        }
        push(&mut queues, "jane", "jane", "jane");
        assert_eq!(all(&mut queues)[..3], ["greedy 0", "jane", "greedy 1"]);
        assert!(queues.is_empty() && queues.flows.is_empty());
    }

    #[test]
    fn the_callers_of_a_flow_take_turns_in_the_turns_of_the_flow() {
        let mut queues = Queues::default();
        for (caller, request) in [("a", "a0"), ("a", "a1"), ("a", "a2"), ("b", "b0")] {
            push(&mut queues, "shop", caller, request);
        }
        push(&mut queues, "bank", "c", "c0");
        push(&mut queues, "bank", "c", "c1");
        assert_eq!(all(&mut queues), ["a0", "c0", "b0", "c1", "a1", "a2"]);
    }

    #[test]
    fn a_flow_that_cannot_go_on_keeps_its_turn_and_delays_nobody() {
        let mut queues = Queues::default();
        push(&mut queues, "stuck", "stuck", "stuck");
        push(&mut queues, "jane", "jane", "jane");
        push(&mut queues, "joe", "joe", "joe");
        assert_eq!(queues.next(|request| request != "stuck").as_deref(), Some("jane"));
        assert_eq!(queues.next(|_| true).as_deref(), Some("stuck"));
    }

    #[test]
    fn a_request_that_leaves_is_forgotten_at_once() {
        let mut queues = Queues::default();
        let (first, second) = (push(&mut queues, "f", "c", "first"), push(&mut queues, "f", "c", "second"));
        assert_eq!(queues.remove(&first).as_deref(), Some("first"));
        assert_eq!(queues.remove(&first), None);
        assert_eq!(queues.remove(&second).as_deref(), Some("second"));
        assert!(queues.is_empty() && queues.flows.is_empty());
    }

    #[test]
    fn callers_and_flows_have_shares_of_the_queues() {
        let most = Waiting { total: 100, of_flow: 3, of_caller: 2 };
        let mut queues = Queues::default();
        let mut pushed = |flow: &str, caller: &str| queues.push(of(flow, caller), (), most).is_ok();
        assert_eq!([(); 3].map(|()| pushed("f", "a")), [true, true, false]);
        assert_eq!([(); 2].map(|()| pushed("f", "b")), [true, false]);
        assert!(pushed("g", "a"));
    }

    #[test]
    fn when_the_queues_are_full_the_flow_with_most_gives_its_newest_request_up() {
        let most = Waiting { total: 4, of_flow: 4, of_caller: 4 };
        let mut queues = Queues::default();
        for at in 0..4 {
            queues.push(of("greedy", "greedy"), format!("greedy {at}"), most).expect("a place");
        }
        let mut push =
            |flow: &str| queues.push(of(flow, flow), flow.to_owned(), most).map(|(_, displaced)| displaced);
        assert_eq!(push("jane"), Ok(Some("greedy 3".to_owned())));
        assert_eq!(push("joe"), Ok(Some("greedy 2".to_owned())));
        assert_eq!(push("greedy"), Err("greedy".to_owned()), "it has most itself");
        assert_eq!(push("jane"), Err("jane".to_owned()), "nobody has more than she would");
    }

    #[test]
    fn a_priority_user_finds_a_place_and_keeps_it() {
        let most = Waiting { total: 4, of_flow: 4, of_caller: 4 };
        let mut queues = Queues::default();
        let controller = Queuer { has_priority: true, ..of("controller", "controller") };
        for at in 0..3 {
            queues.push(controller, at, most).expect("a place");
        }
        queues.push(of("jane", "jane"), 3, most).expect("the last place");
        assert_eq!(
            queues.push(of("joe", "joe"), 4, most).map(|_| ()),
            Err(4),
            "the controller is not displaced"
        );
        assert_eq!(queues.push(controller, 5, most).map(|(_, displaced)| displaced), Ok(Some(3)));
    }

    #[test]
    fn a_priority_user_keeps_its_place_among_other_users_of_its_flow() {
        let most = Waiting { total: 4, of_flow: 4, of_caller: 4 };
        let mut queues = Queues::default();
        for request in ["account 0", "account 1", "account 2"] {
            queues.push(of("namespace", "account"), request, most).expect("a place");
        }
        let controller = Queuer { has_priority: true, ..of("namespace", "controller") };
        let (place, _) = queues.push(controller, "controller", most).expect("the last place");
        assert!(queues.has_priority());
        let displaced = queues.push(of("jane", "jane"), "jane", most).map(|(_, displaced)| displaced);
        assert_eq!(displaced, Ok(Some("account 2")), "the newest of those without priority");
        assert_eq!(queues.remove(&place), Some("controller"));
        assert!(!queues.has_priority());
    }
}
