//! Configuration of a world, with limits on what may go wrong in it.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{
    Answer, DEFAULT_PRIORITY, DeadlineAction, HttpEndpoint, RefusalPolicy, Requester, ResponderEntry, Window,
};

use crate::Rules;

/// Duration of a window, in seconds.
const WINDOW_SECONDS: i64 = 60;
/// In seconds.
const DAY: i64 = 24 * 3600;

/// A small world: its people, their words, and limits on what may go wrong.
#[derive(Clone, Debug)]
pub struct Config {
    /// For people.
    pub name: &'static str,
    /// The purpose of the world, in words.
    pub about: &'static str,
    /// The server's clock shows these times and no others, in seconds from the creation. It ends with the
    /// last.
    pub instants: &'static [i64],
    /// By how much the clock of a controller may differ from the server's whenever it looks, in seconds.
    pub skews: &'static [i64],
    /// The number of controllers that believe that they lead.
    pub controllers: usize,
    /// The responders, highest priority first.
    pub responders: &'static [Registered],
    /// The answers that a responder may give, at any time.
    pub answers: &'static [Say],
    /// The possible requesters. The first one creates the Evacuation.
    pub users: &'static [User],
    /// The budget that selects the pod, if there is one: true when it allows a disruption at first.
    pub budget: Option<bool>,
    /// Limits on the events of the world.
    pub limits: Limits,
    /// True when the walk ends with the parts of the responders: other worlds show what follows.
    pub asks_only: bool,
    /// The rules that are kept.
    pub rules: Rules,
}

/// A responder as the pod registers it.
#[derive(Clone, Copy, Debug)]
pub struct Registered {
    /// Maximum silence, in seconds.
    pub timeout: i64,
    /// Maximum total delay, in seconds.
    pub max_delay: i64,
    /// True for an endpoint, which answers only what it is asked. Any other may say something at any time.
    pub endpoint: bool,
}

/// One who may want the pod moved.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// The entry with which the user is there from the start.
    pub first: Option<Entry>,
    /// The entries that the user may put in its place, or join with.
    pub says: &'static [Entry],
    /// True when the user may remove its entry and delete its Evacuation.
    pub leaves: bool,
}

/// The content of a requester's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The policy for a refusal.
    pub on_refusal: RefusalPolicy,
    /// The deadline, in seconds, and its action.
    pub deadline: Option<(i64, DeadlineAction)>,
    /// The minute after the creation at which its window opens, for a minute.
    pub window: Option<u32>,
    /// The time that the caller behind the entry has to delete the pod itself, in seconds.
    pub caller_deletes_within: Option<i64>,
}

/// An answer of a responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Say {
    /// Go ahead.
    Accept,
    /// Do not.
    Refuse,
    /// Wait, for so many seconds.
    Delay(i64),
}

/// Limits on events that the protocol cannot predict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// A controller loses all that it knows only by itself.
    pub crashes: u8,
    /// A request or its reply is lost.
    pub losses: u8,
    /// An endpoint cannot be reached by a question.
    pub misses: u8,
    /// A responder says something. Any of them may, whatever it was asked and said before: that covers
    /// answers that are late, repeated or overtake each other. An endpoint may once for each question.
    pub answers: u8,
    /// A requester joins, changes its entry, leaves, or deletes the Evacuation.
    pub edits: u8,
    /// A controller gone mad writes a status.
    pub forgeries: u8,
    /// The budget changes its mind.
    pub shifts: u8,
    /// Another user deletes the pod.
    pub departures: u8,
    /// The number of Evacuations of the pod that may be created.
    pub objects: u8,
}

impl Say {
    /// The answer on the wire.
    pub(crate) fn answer(self) -> Answer {
        match self {
            Self::Accept => Answer::Accept,
            Self::Refuse => Answer::Refuse,
            Self::Delay(_) => Answer::Delay,
        }
    }

    /// For a delay: how long, in seconds.
    pub(crate) fn delay_seconds(self) -> Option<i64> {
        match self {
            Self::Delay(seconds) => Some(seconds),
            Self::Accept | Self::Refuse => None,
        }
    }
}

impl Entry {
    /// Returns the time at which an entry set at `now` wakes, computed without the protocol, in seconds.
    pub(crate) fn wakes(minute: u32, now: i64) -> i64 {
        let opens = i64::from(minute) * 60;
        let over = (now - opens - WINDOW_SECONDS).div_euclid(DAY) + 1;
        (opens + over * DAY).max(now)
    }

    /// The entry in a spec.
    pub(crate) fn requester(self, user: usize) -> Requester {
        Requester {
            owner: user_name(user),
            on_refusal: Some(self.on_refusal),
            deadline: self.deadline.map(|(seconds, _)| at(seconds).into()),
            at_deadline: self.deadline.map(|(_, action)| action),
            caller_deletes_within_seconds: self.caller_deletes_within,
            window: self.window.map(|minute| Window {
                schedule: format!("{minute} 0 * * *"),
                duration_seconds: WINDOW_SECONDS,
                time_zone: None,
            }),
            ..Requester::named(requester_name(user))
        }
    }
}

impl Config {
    /// The entries of the pod's annotation.
    pub(crate) fn registered(&self) -> Vec<ResponderEntry> {
        // By falling priority: those of the same priority would be asked by name.
        let entry = |(priority, (i, r)): (i32, (usize, &Registered))| ResponderEntry {
            priority: Some(priority),
            timeout_seconds: Some(r.timeout),
            max_delay_seconds: Some(r.max_delay),
            http: r.endpoint.then_some(HttpEndpoint { port: 80, path: None, allow_host_network: None }),
            ..ResponderEntry::named(&responder_name(i))
        };
        let priorities = (0..=DEFAULT_PRIORITY).rev();
        priorities.zip(self.responders.iter().enumerate()).map(entry).collect()
    }

    /// The next time that the server's clock shows.
    pub(crate) fn next_instant(&self, now: i64) -> Option<i64> {
        self.instants.iter().copied().find(|time| *time > now)
    }
}

/// The time that is so many seconds after the creation.
pub(crate) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::seconds(seconds)
}

/// The name of a user's entry.
pub(crate) fn requester_name(user: usize) -> String {
    format!("user.example/{user}")
}

/// The name by which a user is known to the server.
pub(crate) fn user_name(user: usize) -> String {
    format!("user-{user}")
}

/// The name of a responder: the first is the pod itself.
pub(crate) fn responder_name(index: usize) -> String {
    if index == 0 { "self".to_owned() } else { format!("responder.example/{index}") }
}
