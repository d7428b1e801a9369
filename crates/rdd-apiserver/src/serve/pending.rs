//! Connections that have not authenticated yet, and which of them make room when there are too many.

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Weak},
};

use rdd_stdx::socket::SocketOwners;
use tokio::net::TcpStream;

use super::frame::Visit;

/// Who opened a connection, as far as the platform tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PeerUser {
    /// The user that this process runs as.
    Own,
    /// Another user of this machine.
    Other(u32),
    /// Somebody at this address.
    Unknown(IpAddr),
}

/// Tells who opened a connection.
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
        let user = self.0.as_ref().and_then(|owners| {
            let uid = owners.uid(peer, stream.local_addr().ok()?)?;
            Some(if uid == owners.own_uid() { PeerUser::Own } else { PeerUser::Other(uid) })
        });
        user.unwrap_or(PeerUser::Unknown(peer.ip()))
    }
}

/// Connections that have not authenticated yet, oldest first.
///
/// Any user of this machine can open connections and send nothing. These connections have limits of their own: one for
/// those of the user that this process runs as, and one that all others share. Who exceeds a limit pays for it: no
/// connection makes room for one of a user who has as many or more, and none of our own user makes room for another's.
pub(super) struct PendingConnections {
    limit: usize,
    all: VecDeque<(PeerUser, Weak<Visit>)>,
}

/// What a further connection means for those that are pending.
#[derive(Debug, PartialEq, Eq)]
enum Room {
    /// There is room.
    Free,
    /// The oldest pending connection of this user is closed for it.
    Evict(PeerUser),
    /// It is closed itself.
    Refuse,
}

impl PendingConnections {
    /// With room for so many of our own user, and for so many of all others together.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), all: VecDeque::new() }
    }

    /// Lets a connection in, or refuses it.
    pub(super) fn admit(&mut self, user: PeerUser) -> Option<Arc<Visit>> {
        self.all.retain(|(_, visit)| visit.upgrade().is_some_and(|visit| !visit.is_known()));
        match room(&self.count(), user, self.limit) {
            Room::Free => {}
            Room::Evict(user) => self.evict_oldest(user),
            Room::Refuse => return None,
        }
        let visit = Arc::new(Visit::default());
        self.all.push_back((user, Arc::downgrade(&visit)));
        Some(visit)
    }

    fn count(&self) -> HashMap<PeerUser, usize> {
        let mut counts = HashMap::new();
        for (user, _) in &self.all {
            *counts.entry(*user).or_default() += 1;
        }
        counts
    }

    fn evict_oldest(&mut self, user: PeerUser) {
        let Some(at) = self.all.iter().position(|(pending, _)| *pending == user) else { return };
        if let Some(visit) = self.all.remove(at).and_then(|(_, visit)| visit.upgrade()) {
            visit.evicted.cancel();
        }
    }
}

/// Decides about one more connection of `user`, from how many each user has pending.
fn room(pending: &HashMap<PeerUser, usize>, user: PeerUser, limit: usize) -> Room {
    let of_user = pending.get(&user).copied().unwrap_or_default();
    if user == PeerUser::Own {
        // A browser of the user may open many as well; the newest is the likeliest to be in use.
        return if of_user < limit { Room::Free } else { Room::Evict(user) };
    }
    let others = || pending.iter().filter(|(user, _)| **user != PeerUser::Own);
    if others().map(|(_, count)| count).sum::<usize>() < limit {
        return Room::Free;
    }
    match others().max_by_key(|(_, count)| **count) {
        Some((most, count)) if of_user < *count => Room::Evict(*most),
        // Where users are unknown this may be our own, who would be locked out if the newest were refused.
        _ if matches!(user, PeerUser::Unknown(_)) => Room::Evict(user),
        _ => Room::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const UNKNOWN: PeerUser = PeerUser::Unknown(IpAddr::V4(Ipv4Addr::LOCALHOST));

    fn is_evicted(visits: &[Arc<Visit>]) -> Vec<bool> {
        visits.iter().map(|visit| visit.evicted.is_cancelled()).collect()
    }

    // Finding A-7
    #[test]
    fn a_user_over_the_limit_makes_room_by_himself_and_our_own_for_nobody_else() {
        use PeerUser::{Other, Own};
        for (pending, user, expected) in [
            (&[][..], Own, Room::Free),
            (&[(Other(1), 4)], Own, Room::Free),
            (&[(Own, 4)], Own, Room::Evict(Own)),
            (&[(Own, 4)], Other(1), Room::Free),
            (&[(Own, 9), (Other(1), 3)], Other(1), Room::Free),
            (&[(Own, 9), (Other(1), 4)], Other(1), Room::Refuse),
            (&[(Other(1), 4)], Other(2), Room::Evict(Other(1))),
            (&[(Other(1), 3), (Other(2), 1)], Other(2), Room::Evict(Other(1))),
            (&[(Other(1), 2), (Other(2), 2)], Other(2), Room::Refuse),
            (&[(Other(1), 3), (Other(2), 1)], Other(1), Room::Refuse),
            (&[(UNKNOWN, 4)], UNKNOWN, Room::Evict(UNKNOWN)),
            (&[(UNKNOWN, 4)], Other(1), Room::Evict(UNKNOWN)),
            (&[(Other(1), 4)], UNKNOWN, Room::Evict(Other(1))),
        ] {
            let counts = pending.iter().copied().collect();
            assert_eq!(room(&counts, user, 4), expected, "{pending:?} and {user:?}");
        }
    }

    #[test]
    fn the_oldest_pending_one_makes_room_and_an_authenticated_one_never_does() {
        let mut pending = PendingConnections::new(3);
        let visits: Vec<_> = (0..3).map(|_| pending.admit(PeerUser::Own).unwrap()).collect();
        visits[0].make_known();
        let _fourth = pending.admit(PeerUser::Own).unwrap();
        assert_eq!(is_evicted(&visits), [false, false, false], "the authenticated one no longer counts");
        let _fifth = pending.admit(PeerUser::Own).unwrap();
        assert_eq!(is_evicted(&visits), [false, true, false]);
    }

    // Finding A-7
    #[test]
    fn a_flood_by_another_user_closes_none_of_ours() {
        let mut pending = PendingConnections::new(3);
        let ours: Vec<_> = (0..3).map(|_| pending.admit(PeerUser::Own).unwrap()).collect();
        let theirs: Vec<_> = (0..100).filter_map(|_| pending.admit(PeerUser::Other(7))).collect();
        assert_eq!((is_evicted(&ours), theirs.len()), (vec![false; 3], 3));
        assert_eq!(is_evicted(&theirs), [false; 3], "who is over the limit is refused");
        let _third_user = pending.admit(PeerUser::Other(8)).unwrap();
        assert_eq!(is_evicted(&theirs), [true, false, false], "and gives way to who has less");
    }

    #[test]
    fn connections_that_ended_are_forgotten() {
        let mut pending = PendingConnections::new(100);
        for _ in 0..10 {
            drop(pending.admit(UNKNOWN));
        }
        assert_eq!(pending.all.len(), 1);
    }
}
