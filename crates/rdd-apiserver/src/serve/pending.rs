//! Admission of connections that have not authenticated yet: which are served, which wait, and which are refused.
//!
//! A new connection never displaces another one. When all places are taken, a new connection waits in line if it may belong to
//! the server's own user, and is refused otherwise. So that the line moves, the server closes a connection that has not
//! authenticated within [`Limits::pending_time`](super::Limits) while others wait. A client that sends its request at once takes
//! a fraction of this time; a client that sends nothing loses a connection that it does not use.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rdd_stdx::socket::SocketOwners;
use tokio::{
    net::TcpStream,
    sync::{OnceCell, OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep_until, timeout},
};

/// The user who opened a connection, as far as the platform reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerUser {
    /// The user that the server runs as.
    Own,
    /// Another user of this machine.
    Other(u32),
    /// The platform reports users, but none for this connection: its process has already closed it.
    Gone,
    /// The platform does not report users, so this may be the server's own user.
    Unknown,
}

/// Looks up the users of connections.
pub(super) struct PeerUsers(Option<SocketOwners>);

impl PeerUsers {
    pub(super) fn open() -> Self {
        let owners = SocketOwners::open();
        if let Err(error) = &owners {
            tracing::info!(%error, "the users of connections are unknown; all clients share one limit");
        }
        Self(owners.ok())
    }

    pub(super) fn identify(&self, stream: &TcpStream, peer: SocketAddr) -> PeerUser {
        let Some(owners) = &self.0 else { return PeerUser::Unknown };
        let uid = stream.local_addr().ok().and_then(|local| owners.uid(peer, local));
        match uid {
            Some(uid) if uid == owners.own_uid() => PeerUser::Own,
            Some(uid) => PeerUser::Other(uid),
            None => PeerUser::Gone,
        }
    }
}

/// The places of connections that have not authenticated yet.
///
/// Any user of this machine can open connections and send nothing. Therefore the server's own user has places that no other user
/// can take. All other users share as many, of which each user gets at most half.
pub(super) struct PendingConnections {
    /// For the server's own user; for everyone if the platform does not report users.
    own: Arc<PendingPool>,
    others: Arc<PendingPool>,
    /// The part of `others` that each other user may take.
    shares: HashMap<u32, Arc<Semaphore>>,
    share_size: usize,
}

/// Places that connections get in the order in which they arrived.
#[derive(Debug)]
struct PendingPool {
    places: Arc<Semaphore>,
    /// The maximum length of the line.
    line_max: usize,
    /// The number of connections that wait for a place.
    waiting: watch::Sender<usize>,
}

impl PendingConnections {
    /// Creates this many places for the server's own user, and as many for all other users together.
    pub(super) fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        let share_size = limit.div_ceil(2);
        let (own, others) = (PendingPool::new(limit, limit), PendingPool::new(limit, 0));
        Self { own, others, shares: HashMap::new(), share_size }
    }

    /// Takes a place for a connection, or a position in line. `None` refuses the connection.
    pub(super) fn enter(&mut self, user: PeerUser) -> Option<Arc<Visit>> {
        match user {
            PeerUser::Own | PeerUser::Unknown => self.own.enter(None),
            PeerUser::Gone => self.others.enter(None),
            PeerUser::Other(uid) => {
                let share_size = self.share_size;
                // Forget users without connections, so that the map does not grow forever.
                self.shares.retain(|_, share| share.available_permits() < share_size);
                let share = self.shares.entry(uid).or_insert_with(|| Arc::new(Semaphore::new(share_size)));
                let share = Arc::clone(share).try_acquire_owned().ok()?;
                self.others.enter(Some(share))
            }
        }
    }
}

impl PendingPool {
    fn new(limit: usize, line_max: usize) -> Arc<Self> {
        Arc::new(Self { places: Arc::new(Semaphore::new(limit)), line_max, waiting: watch::Sender::new(0) })
    }

    fn enter(self: &Arc<Self>, share: Option<OwnedSemaphorePermit>) -> Option<Arc<Visit>> {
        // The semaphore is fair: `try_acquire` fails as long as others wait.
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => PendingPlace::Taken { _place: place, _share: share },
            Err(_) if *self.waiting.borrow() < self.line_max => PendingPlace::Waiting(WaitingLine::join(self)),
            Err(_) => return None,
        };
        Some(Arc::new(Visit::new(Arc::clone(self), place)))
    }
}

/// The position of a connection in line. Dropping it leaves the line.
#[derive(Debug)]
struct WaitingLine(Arc<PendingPool>);

impl WaitingLine {
    fn join(pool: &Arc<PendingPool>) -> Self {
        pool.waiting.send_modify(|waiting| *waiting += 1);
        Self(Arc::clone(pool))
    }
}

impl Drop for WaitingLine {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|waiting| *waiting -= 1);
    }
}

/// The state of a connection in its pool.
#[derive(Debug)]
enum PendingPlace {
    Waiting(#[expect(dead_code, reason = "held for its drop")] WaitingLine),
    Taken {
        _place: OwnedSemaphorePermit,
        _share: Option<OwnedSemaphorePermit>,
    },
    /// The connection has authenticated, and needs no place.
    Released,
}

/// The state of a connection that the accepting task and the requests share: pending until one of its requests has authenticated.
#[derive(Debug)]
pub(super) struct Visit {
    known: AtomicBool,
    upgraded: AtomicBool,
    pool: Arc<PendingPool>,
    place: Mutex<PendingPlace>,
    /// The time at which the connection got its place.
    admitted: OnceCell<Instant>,
}

impl Visit {
    fn new(pool: Arc<PendingPool>, place: PendingPlace) -> Self {
        Self {
            known: AtomicBool::new(false),
            upgraded: AtomicBool::new(false),
            pool,
            place: Mutex::new(place),
            admitted: OnceCell::new(),
        }
    }

    /// Waits for the connection's place. Returns false if it got none within `time`.
    pub(super) async fn admit(&self, time: Duration) -> bool {
        if matches!(*self.lock_place(), PendingPlace::Waiting(_)) {
            let Ok(Ok(place)) = timeout(time, Arc::clone(&self.pool.places).acquire_owned()).await else {
                return false;
            };
            *self.lock_place() = PendingPlace::Taken { _place: place, _share: None };
        }
        // Only the task that serves the connection calls this, once, so the cell is empty.
        let _ = self.admitted.set(Instant::now());
        true
    }

    /// Completes when the connection has had its place for `time` and others wait for one.
    pub(super) async fn overdue(&self, time: Duration) {
        let admitted = self.admitted.get().copied().unwrap_or_else(Instant::now);
        sleep_until(admitted + time).await;
        // This cannot fail: the pool, which this connection holds, has the sender.
        let _ = self.pool.waiting.subscribe().wait_for(|waiting| *waiting > 0).await;
    }

    /// Whether the connection has authenticated.
    pub(super) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// Records that the connection has authenticated, and releases its place for the next one.
    pub(super) fn make_known(&self) {
        if !self.known.swap(true, Ordering::Relaxed) {
            *self.lock_place() = PendingPlace::Released;
        }
    }

    /// Whether the connection has switched from HTTP to another protocol.
    pub(super) fn is_upgraded(&self) -> bool {
        self.upgraded.load(Ordering::Relaxed)
    }

    /// Records that the connection switches from HTTP to another protocol.
    pub(super) fn mark_upgraded(&self) {
        self.upgraded.store(true, Ordering::Relaxed);
    }

    fn lock_place(&self) -> std::sync::MutexGuard<'_, PendingPlace> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const PENDING_TIME: Duration = Duration::from_secs(2);
    const WAIT_TIME: Duration = Duration::from_secs(10);

    fn enter_many(pending: &mut PendingConnections, user: PeerUser, count: usize) -> Vec<Arc<Visit>> {
        (0..count).filter_map(|_| pending.enter(user)).collect()
    }

    /// Whether the connection has a place without waiting.
    fn is_admitted(visit: &Visit) -> bool {
        visit.admit(WAIT_TIME).now_or_never() == Some(true)
    }

    // Finding A-7
    #[tokio::test]
    async fn over_the_limit_the_newest_waits_in_line_and_beyond_that_is_refused() {
        for user in [PeerUser::Own, PeerUser::Unknown] {
            let mut pending = PendingConnections::new(3);
            let visits = enter_many(&mut pending, user, 100);
            let admitted: Vec<bool> = visits.iter().map(|visit| is_admitted(visit)).collect();
            assert_eq!(admitted, [true, true, true, false, false, false], "three have a place, three wait: {user:?}");
            visits[1].make_known();
            assert!(is_admitted(&visits[3]), "who waits gets the place of one that authenticated");
            assert!(!is_admitted(&visits[4]));
            assert!(pending.enter(user).is_some(), "the line has room again");
        }
    }

    // Finding A-7
    #[tokio::test(start_paused = true)]
    async fn no_connection_is_closed_for_another_before_it_had_its_time() {
        let mut pending = PendingConnections::new(1);
        let first = pending.enter(PeerUser::Own).unwrap();
        assert!(is_admitted(&first));
        let mut overdue = Box::pin(first.overdue(PENDING_TIME));
        let _waiting = enter_many(&mut pending, PeerUser::Own, 100);
        let early = timeout(PENDING_TIME.mul_f64(0.9), overdue.as_mut()).await;
        assert!(early.is_err(), "others wait, but it has time left");
        timeout(PENDING_TIME, overdue).await.expect("it has had its time, and others wait");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_stays_while_no_other_waits() {
        let mut pending = PendingConnections::new(1);
        let first = pending.enter(PeerUser::Own).unwrap();
        assert!(is_admitted(&first));
        assert!(timeout(PENDING_TIME * 10, first.overdue(PENDING_TIME)).await.is_err());
        let waiting = pending.enter(PeerUser::Own).unwrap();
        timeout(PENDING_TIME, first.overdue(PENDING_TIME)).await.expect("now one waits");
        drop(first);
        assert!(is_admitted(&waiting));
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_a_place_has_a_bound() {
        let mut pending = PendingConnections::new(1);
        let _first = pending.enter(PeerUser::Own).unwrap();
        let second = pending.enter(PeerUser::Own).unwrap();
        assert!(!second.admit(WAIT_TIME).await);
        drop(second);
        assert!(pending.enter(PeerUser::Own).is_some(), "who gave up has left the line");
    }

    // Finding A-7
    #[tokio::test]
    async fn a_flood_by_another_user_takes_no_place_of_ours_and_half_of_those_of_others() {
        let mut pending = PendingConnections::new(4);
        let theirs = enter_many(&mut pending, PeerUser::Other(7), 100);
        assert_eq!(theirs.len(), 2, "what is over the share of a user is refused");
        let third_user = enter_many(&mut pending, PeerUser::Other(8), 1);
        assert_eq!(third_user.len(), 1, "a third user finds a place");
        let gone = enter_many(&mut pending, PeerUser::Gone, 100);
        assert_eq!(gone.len(), 1, "nothing of others waits");
        let ours = enter_many(&mut pending, PeerUser::Own, 4);
        assert!(ours.iter().all(|visit| is_admitted(visit)), "all places of ours are there");
        theirs[0].make_known();
        assert!(pending.enter(PeerUser::Other(7)).is_some(), "one that authenticated no longer counts");
    }

    #[tokio::test]
    async fn connections_that_ended_are_forgotten() {
        let mut pending = PendingConnections::new(100);
        for uid in 0..10 {
            drop(pending.enter(PeerUser::Other(uid)));
        }
        assert_eq!(pending.shares.len(), 1);
    }
}
