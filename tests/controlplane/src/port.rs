use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::{Error, Result};

/// Below the ports that the system picks for outgoing connections, which could otherwise take a port
/// between its choice and its use, or while a server is down for a moment.
const PORTS: Range<u16> = 20_000..32_000;
/// Ports are reserved in blocks: one lock file serves for many.
const BLOCK: u16 = 100;

/// A number that no other process of this user holds: a lock on a file, which ends with the process.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) number: u16,
    _lock: File,
}

impl Reservation {
    /// Takes a number that is not taken from `range`, which belongs to `what`.
    pub(crate) fn take(what: &'static str, range: Range<u16>) -> Result<Self> {
        let folder = folder();
        fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        // Where the search begins differs by process: less to try, and numbers are not reused at once.
        let size = range.len().max(1);
        let start = std::process::id() as usize % size;
        for number in range.clone().cycle_from(start) {
            let path = folder.join(format!("{what}-{number}"));
            let lock = File::create(&path).map_err(Error::file("create", &path))?;
            if lock.try_lock().is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        Err(Error::Exhausted { what })
    }
}

trait CycleFrom {
    fn cycle_from(self, start: usize) -> impl Iterator<Item = u16>;
}

impl CycleFrom for Range<u16> {
    fn cycle_from(self, start: usize) -> impl Iterator<Item = u16> {
        self.clone().skip(start).chain(self.take(start))
    }
}

struct Block {
    _reservation: Reservation,
    rest: Range<u16>,
}

static BLOCK_IN_USE: Mutex<Vec<Block>> = Mutex::new(Vec::new());

/// A TCP port on which nothing listens at 127.0.0.1.
///
/// It is handed out once: neither this process nor another one of this user that asks this function gets it
/// too, as long as this process lives. So a server may be stopped and started again on it.
///
/// # Errors
///
/// Fails when none is left, or the lock files in `/tmp` cannot be written.
pub fn free_port() -> Result<u16> {
    let mut blocks = BLOCK_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(block) = blocks.last_mut() {
            for port in block.rest.by_ref() {
                if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                    return Ok(port);
                }
            }
        }
        // The blocks that are used up stay locked: their ports are still in use here.
        let reservation = Reservation::take("ports", PORTS.start / BLOCK..PORTS.end / BLOCK)?;
        let first = reservation.number * BLOCK;
        blocks.push(Block { _reservation: reservation, rest: first..first + BLOCK });
    }
}

/// Shared by the processes of one user: another user's lock files could not be opened. `TMPDIR` does not
/// count, for each suite of a test run has its own.
fn folder() -> PathBuf {
    let user =
        std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "user".to_owned());
    PathBuf::from("/tmp").join(format!("controlplane-locks-{}", user.replace('/', "-")))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_port_is_handed_out_twice() {
        let ports: Vec<u16> = (0..250).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.iter().collect::<HashSet<_>>().len(), ports.len());
        assert!(ports.iter().all(|port| PORTS.contains(port)));
    }

    #[test]
    fn a_port_that_is_listened_on_is_passed_over() {
        let port = free_port().unwrap();
        let next = (port + 1..port + 50)
            .find_map(|p| TcpListener::bind((Ipv4Addr::LOCALHOST, p)).ok().map(|l| (p, l)));
        let (taken, _listener) = next.unwrap();
        let handed_out: Vec<u16> = (0..60).map(|_| free_port().unwrap()).collect();
        assert!(!handed_out.contains(&taken));
    }

    #[test]
    fn a_reservation_is_exclusive_until_it_is_dropped() {
        let range = 40_000 + u16::try_from(std::process::id() % 10_000).unwrap()..;
        let range = range.start..range.start + 2;
        let first = Reservation::take("test", range.clone()).unwrap();
        let second = Reservation::take("test", range.clone()).unwrap();
        assert_ne!(first.number, second.number);
        assert!(matches!(Reservation::take("test", range.clone()), Err(Error::Exhausted { what: "test" })));
        let freed = first.number;
        drop(first);
        // A program being started holds a copy of the lock until it runs.
        let again = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            Reservation::take("test", range.clone()).ok()
        });
        assert_eq!(again.unwrap().number, freed);
        for number in [freed, second.number] {
            fs::remove_file(folder().join(format!("test-{number}"))).unwrap();
        }
    }
}
