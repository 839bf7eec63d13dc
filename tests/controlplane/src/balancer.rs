use std::collections::HashMap;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::{fmt, io};

use crate::{Error, Result, free_port};

/// A TCP load balancer in front of replicas on loopback: each new connection goes to the next replica that
/// accepts it.
///
/// A test directs it with [`Balancer::only`]. It needs no runtime of its own. It ends when this value is
/// dropped, with all its connections.
pub struct Balancer {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    backends: Vec<u16>,
    ended: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// The places of the replicas that new connections go to, next one first.
    turns: Vec<usize>,
    /// The connections, by number: the replica's place, and both streams.
    open: HashMap<u64, (usize, TcpStream, TcpStream)>,
    next: u64,
}

impl Balancer {
    /// Starts one in front of these ports of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// Fails when it cannot listen.
    pub fn start(backends: &[u16]) -> Result<Self> {
        let cannot = |source| Error::Process { action: "start", name: "balancer".to_owned(), source };
        let port = free_port()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(cannot)?;
        let state = State { turns: (0..backends.len()).collect(), open: HashMap::new(), next: 0 };
        let shared = Arc::new(Shared {
            backends: backends.to_owned(),
            ended: AtomicBool::new(false),
            state: Mutex::new(state),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.ended.load(Ordering::Acquire) {
                    return;
                }
                if let Ok(stream) = stream {
                    // A connection that fails is the client's to repeat.
                    accepting.carry(stream).ok();
                }
            }
        });
        Ok(Self { port, shared })
    }

    /// The port at which it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends new connections to the replica at that place only, and ends the connections to all others.
    pub fn only(&self, place: usize) {
        let mut state = self.shared.state();
        state.turns = vec![place];
        for (_, client, server) in state.open.values().filter(|(at, ..)| *at != place) {
            end(client);
            end(server);
        }
    }

    /// Sends new connections to all replicas but the one at that place, unless it is the only one. Those that
    /// are open stay.
    pub fn without(&self, place: usize) {
        let others = (0..self.shared.backends.len()).filter(|other| *other != place).collect::<Vec<_>>();
        if !others.is_empty() {
            self.shared.state().turns = others;
        }
    }

    /// Sends new connections to all replicas again, in turn.
    pub fn all(&self) {
        self.shared.state().turns = (0..self.shared.backends.len()).collect();
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        for (_, client, server) in self.shared.state().open.values() {
            end(client);
            end(server);
        }
        // Wakes the thread that accepts.
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects a client to a replica, and copies in both directions until either side ends.
    fn carry(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let mut state = self.state();
        let connected = (0..state.turns.len()).find_map(|_| {
            state.turns.rotate_left(1);
            let place = *state.turns.last()?;
            let port = *self.backends.get(place)?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            TcpStream::connect(address).ok().map(|server| (place, server))
        });
        let Some((place, server)) = connected else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let number = state.next;
        state.next += 1;
        state.open.insert(number, (place, client.try_clone()?, server.try_clone()?));
        drop(state);
        let directions = [(client.try_clone()?, server.try_clone()?), (server, client)];
        for (mut from, mut to) in directions {
            let shared = Arc::clone(self);
            thread::spawn(move || {
                io::copy(&mut from, &mut to).ok();
                end(&from);
                end(&to);
                shared.state().open.remove(&number);
            });
        }
        Ok(())
    }
}

/// Ends a connection that may have ended already.
fn end(stream: &TcpStream) {
    stream.shutdown(Shutdown::Both).ok();
}

impl fmt::Debug for Balancer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Balancer").field("port", &self.port).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// A replica that greets every connection with its letter and then waits for its end.
    fn replica(letter: u8) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    stream.write_all(&[letter]).unwrap();
                    stream.read_to_end(&mut Vec::new()).ok();
                });
            }
        });
        port
    }

    fn connect(balancer: &Balancer) -> (u8, TcpStream) {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, balancer.port())).unwrap();
        let mut letter = [0];
        stream.read_exact(&mut letter).unwrap();
        (letter[0], stream)
    }

    #[test]
    fn connections_go_to_the_replicas_in_turn_and_past_one_that_is_down() {
        let down = free_port().unwrap();
        let balancer = Balancer::start(&[replica(b'a'), down, replica(b'b')]).unwrap();
        let letters: Vec<u8> = (0..4).map(|_| connect(&balancer).0).collect();
        assert_eq!(letters, b"abab");
    }

    #[test]
    fn a_balancer_leaves_a_replica_out_and_keeps_its_connections() {
        let balancer = Balancer::start(&[replica(b'a'), replica(b'b')]).unwrap();
        let mut first = connect(&balancer);
        assert_eq!(first.0, b'a');
        balancer.without(0);
        assert_eq!([connect(&balancer).0, connect(&balancer).0], [b'b'; 2]);
        first.1.set_nonblocking(true).unwrap();
        assert_eq!(first.1.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "it is open");
        balancer.all();
        let mut letters = [connect(&balancer).0, connect(&balancer).0];
        letters.sort_unstable();
        assert_eq!(&letters, b"ab");
    }

    #[test]
    fn a_balancer_that_is_directed_to_one_replica_ends_the_connections_to_the_other() {
        let balancer = Balancer::start(&[replica(b'a'), replica(b'b')]).unwrap();
        let (mut first, mut second) = (connect(&balancer), connect(&balancer));
        assert_eq!((first.0, second.0), (b'a', b'b'));
        balancer.only(1);
        assert_eq!(first.1.read(&mut [0]).unwrap(), 0, "the connection to the first ended");
        second.1.set_nonblocking(true).unwrap();
        let still = second.1.read(&mut [0]).unwrap_err();
        assert_eq!(still.kind(), io::ErrorKind::WouldBlock, "the other is open");
        assert_eq!([connect(&balancer).0, connect(&balancer).0], [b'b'; 2]);
        balancer.all();
        let mut letters = [connect(&balancer).0, connect(&balancer).0];
        letters.sort_unstable();
        assert_eq!(&letters, b"ab");
    }
}
