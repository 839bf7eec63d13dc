//! Clocks of the other servers of a store, known by the time that each writes there every second.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};

/// Difference between clocks that is tolerated.
const TOLERATED: TimeDelta = TimeDelta::seconds(2);
/// Pause of a server between two writes. Their stamps are farther apart by the time that the first one took.
pub(super) const EVERY: TimeDelta = TimeDelta::seconds(1);
/// Time without a new write after which a server no longer counts.
const SILENT: Duration = Duration::from_secs(10);
/// Time without a new write after which the key of a server is removed.
const GONE: Duration = Duration::from_mins(1);

/// Clocks of the other servers of a store.
///
/// The servers agree on one clock without a vote: the lower median of all that write. Of two servers it is
/// the slower one, so that nothing happens early. A server whose clock differs by more than 2 s is not ready.
#[derive(Debug, Default)]
pub(crate) struct PeerClocks {
    peers: HashMap<String, Peer>,
    /// Moment of the last look.
    looked: Option<Instant>,
}

/// Another server.
#[derive(Debug)]
struct Peer {
    written: DateTime<Utc>,
    /// Moment at which this server noticed the newest write.
    noticed: Instant,
    /// Lead of its clock over the own one; unknown after the first look.
    lead: Option<Lead>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lead {
    estimate: TimeDelta,
    /// Greatest error of the estimate: the write ended at some moment between two looks, and had begun
    /// before.
    error: TimeDelta,
}

impl PeerClocks {
    /// Takes in the newest write of each other server, as read at `moment`, when the own clock shows `now`.
    pub(crate) fn look(
        &mut self,
        writes: impl IntoIterator<Item = (String, DateTime<Utc>)>,
        now: DateTime<Utc>,
        moment: Instant,
    ) {
        let since = self.looked.replace(moment).map(|before| moment.duration_since(before));
        let error = since.and_then(|since| TimeDelta::from_std(since).ok()).map(|since| since / 2);
        let mut before = std::mem::take(&mut self.peers);
        for (name, written) in writes {
            let known = before.remove(&name);
            let took = known.as_ref().map_or(TimeDelta::zero(), |peer| written - peer.written - EVERY);
            let took = took.max(TimeDelta::zero());
            // A key of the first look can be of a server that ended long ago.
            let lead = error.map(|error| Lead { estimate: written - now + error, error: error + took });
            let peer = match known {
                Some(peer) if peer.written == written => peer,
                _ => Peer { written, noticed: moment, lead },
            };
            self.peers.insert(name, peer);
        }
    }

    /// Seconds by which the own clock is ahead of the agreed one; negative when it is behind.
    pub(crate) fn ahead(&self) -> f64 {
        let ahead = TimeDelta::zero() - self.agreed().estimate;
        ahead.as_seconds_f64()
    }

    /// Returns true when the own clock is the agreed one, within the tolerance.
    pub(crate) fn agree(&self) -> bool {
        let Lead { estimate, error } = self.agreed();
        estimate.abs() <= TOLERATED + error
    }

    /// Names of the servers that have not written for a minute, whose keys can be removed.
    pub(crate) fn gone(&self) -> Vec<String> {
        let gone = |peer: &&Peer| self.age(peer) > GONE;
        self.peers.iter().filter(|(_, peer)| gone(peer)).map(|(name, _)| name.clone()).collect()
    }

    /// Lead of the agreed clock over the own one.
    fn agreed(&self) -> Lead {
        let writing = self.peers.values().filter(|peer| self.age(peer) < SILENT);
        let mut leads: Vec<Lead> = writing.filter_map(|peer| peer.lead).collect();
        leads.push(Lead::default());
        leads.sort_by_key(|lead| lead.estimate);
        leads.get((leads.len() - 1) / 2).copied().unwrap_or_default()
    }

    fn age(&self, peer: &Peer) -> Duration {
        self.looked.map_or(Duration::ZERO, |looked| looked.duration_since(peer.noticed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: DateTime<Utc> = DateTime::<Utc>::UNIX_EPOCH;

    /// Looks once a second for so many seconds, at servers whose clocks are ahead by these seconds.
    fn after(seconds: u64, ahead: &[i64]) -> PeerClocks {
        let (mut clocks, moment) = (PeerClocks::default(), Instant::now());
        for second in 0..=seconds {
            let passed = Duration::from_secs(second);
            let writes = ahead.iter().enumerate().map(|(number, ahead)| {
                // Each wrote half a second before the look.
                (number.to_string(), START + passed + TimeDelta::milliseconds(ahead * 1000 - 500))
            });
            clocks.look(writes, START + passed, moment + passed);
        }
        clocks
    }

    #[test]
    fn of_two_servers_the_one_whose_clock_is_ahead_is_not_ready() {
        assert!(after(2, &[45]).agree(), "the other one is ahead");
        let ahead = after(2, &[-45]);
        assert!(!ahead.agree());
        assert!((ahead.ahead() - 45.0).abs() < 0.6, "{}", ahead.ahead());
    }

    #[test]
    fn of_three_servers_the_one_in_the_middle_is_right() {
        for (others, agrees) in
            [([45, 0], true), ([-45, 0], true), ([45, 45], false), ([-45, -45], false), ([45, -45], true)]
        {
            assert_eq!(after(2, &others).agree(), agrees, "{others:?}");
        }
    }

    #[test]
    fn alone_or_with_small_differences_a_server_is_ready() {
        assert!(PeerClocks::default().agree());
        assert!(after(2, &[-2, -2]).agree());
        assert!(after(0, &[-45]).agree(), "one look tells nothing: the server may have ended long ago");
    }

    #[test]
    fn slow_writes_do_not_look_like_a_clock_that_is_behind() {
        let (mut clocks, moment) = (PeerClocks::default(), Instant::now());
        for second in 0..30 {
            // Each write takes 5 s and is stamped when it begins: one shows every 6 s.
            let stamp = i64::try_from(second / 6 * 6).unwrap() - 5;
            let (passed, written) = (Duration::from_secs(second), START + TimeDelta::seconds(stamp));
            clocks.look([("slow".to_owned(), written)], START + passed, moment + passed);
            assert!(second < 12 || clocks.agree(), "{second}: {}", clocks.ahead());
        }
    }

    #[test]
    fn a_server_that_stopped_writing_no_longer_counts_and_is_gone_after_a_minute() {
        let (mut clocks, moment) = (after(2, &[-45]), Instant::now());
        let last = START + TimeDelta::milliseconds(1500 - 45_000);
        for (seconds, agrees, gone) in [(8, false, 0), (15, true, 0), (70, true, 1)] {
            let passed = Duration::from_secs(seconds);
            clocks.look([("0".to_owned(), last)], START + passed, moment + passed);
            assert_eq!((clocks.agree(), clocks.gone().len()), (agrees, gone), "{seconds}");
        }
    }

    #[test]
    fn a_server_that_starts_later_counts_from_its_first_write() {
        let (mut clocks, moment) = (after(2, &[]), Instant::now());
        let passed = Duration::from_secs(3);
        clocks.look([("new".to_owned(), START - TimeDelta::seconds(42))], START + passed, moment + passed);
        assert!(!clocks.agree());
    }
}
