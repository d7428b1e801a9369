//! Finds the user who owns the other end of a local connection.

pub use self::platform::SocketOwners;

/// Queries the kernel's `sock_diag` for the peer of a connection, which on loopback is a socket of this host as well.
///
/// A query is one short request, whose reply is available when the request returns. It takes a few microseconds,
/// independent of the number of sockets; `/proc/net/tcp` would have to be read as a whole.
#[cfg(target_os = "linux")]
mod platform {
    use std::{
        io,
        net::{SocketAddr, SocketAddrV4},
        sync::atomic::{AtomicU32, Ordering},
    };

    use rustix::{
        fd::OwnedFd,
        net::{
            AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink::SOCK_DIAG, recv, send, socket_with,
        },
    };

    /// `SOCK_DIAG_BY_FAMILY`: the type of the request and the reply.
    const BY_FAMILY: u16 = 20;
    /// `NLM_F_REQUEST`.
    const REQUEST: u16 = 1;
    const IPPROTO_TCP: u8 = 6;
    const AF_INET: u8 = 2;
    /// The sizes of `nlmsghdr` and of `inet_diag_req_v2`.
    const HEADER_BYTES: usize = 16;
    const REQUEST_BYTES: usize = HEADER_BYTES + 56;
    /// The offsets of user and inode in `inet_diag_msg`.
    const UID_AT: usize = HEADER_BYTES + 64;
    const INODE_AT: usize = HEADER_BYTES + 68;
    /// The maximum number of replies to earlier requests that are skipped.
    const STALE_MAX: usize = 8;

    /// Finds the owners of TCP sockets on this host.
    #[derive(Debug)]
    pub struct SocketOwners {
        netlink: OwnedFd,
        sequence: AtomicU32,
        own_uid: u32,
    }

    impl SocketOwners {
        /// Opens the netlink socket. Fails where the kernel does not support it.
        pub fn open() -> io::Result<Self> {
            // The reply is available at once; NONBLOCK prevents a hang if it is not.
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let netlink = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG))?;
            let own_uid = rustix::process::geteuid().as_raw();
            Ok(Self { netlink, sequence: AtomicU32::new(1), own_uid })
        }

        /// The effective user of this process.
        pub fn own_uid(&self) -> u32 {
            self.own_uid
        }

        /// The user who owns the TCP socket at `address` that is connected to `peer`. `None` if it is not a socket of
        /// this host, or if its process has closed it, because the kernel then no longer knows the owner.
        pub fn uid(&self, address: SocketAddr, peer: SocketAddr) -> Option<u32> {
            // The daemon listens on IPv4 loopback only.
            let (SocketAddr::V4(address), SocketAddr::V4(peer)) = (address, peer) else { return None };
            let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
            send(&self.netlink, &request(sequence, address, peer), SendFlags::empty()).ok()?;
            let mut reply = [0; 512];
            for _ in 0..STALE_MAX {
                let (length, _) = recv(&self.netlink, &mut reply, RecvFlags::empty()).ok()?;
                let reply = &reply[..length];
                // A reply with another sequence number belongs to a request that was given up.
                if u32_at(reply, 8) == Some(sequence) {
                    return owner(reply);
                }
            }
            None
        }
    }

    fn request(sequence: u32, address: SocketAddrV4, peer: SocketAddrV4) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(REQUEST_BYTES);
        bytes.extend((REQUEST_BYTES as u32).to_ne_bytes());
        bytes.extend(BY_FAMILY.to_ne_bytes());
        bytes.extend(REQUEST.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes()); // sender: the kernel fills it in
        bytes.extend([AF_INET, IPPROTO_TCP, 0, 0]);
        bytes.extend(u32::MAX.to_ne_bytes()); // any state
        bytes.extend(address.port().to_be_bytes());
        bytes.extend(peer.port().to_be_bytes());
        for end in [address, peer] {
            bytes.extend(end.ip().octets());
            bytes.extend([0; 12]); // padding of an IPv4 address
        }
        bytes.extend(0u32.to_ne_bytes()); // any interface
        bytes.extend([0xff; 8]); // no cookie
        bytes
    }

    /// The user in a reply. `None` for a socket without an inode, which no process owns any more.
    fn owner(reply: &[u8]) -> Option<u32> {
        // Errors have another message type.
        let is_found = reply.get(4..6)? == BY_FAMILY.to_ne_bytes();
        (is_found && u32_at(reply, INODE_AT)? != 0).then(|| u32_at(reply, UID_AT)).flatten()
    }

    fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    }
}

/// Other systems do not offer this without unsafe code.
#[cfg(not(target_os = "linux"))]
mod platform {
    use std::{io, net::SocketAddr};

    /// Finds the owners of TCP sockets on this host.
    #[derive(Debug)]
    pub struct SocketOwners(std::convert::Infallible);

    impl SocketOwners {
        /// Always fails on this system.
        pub fn open() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        /// The effective user of this process.
        pub fn own_uid(&self) -> u32 {
            match self.0 {}
        }

        /// The user who owns the TCP socket at `address` that is connected to `peer`.
        pub fn uid(&self, _address: SocketAddr, _peer: SocketAddr) -> Option<u32> {
            match self.0 {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_owner_of_an_open_socket_is_known_and_that_of_a_closed_one_is_not() {
        let owners = SocketOwners::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        let local = server.local_addr().unwrap();
        assert_eq!(owners.uid(peer, local), Some(rustix::process::geteuid().as_raw()));
        assert_eq!(owners.uid(local, peer), Some(rustix::process::geteuid().as_raw()), "this end is ours as well");
        drop(client);
        assert_eq!(owners.uid(peer, local), None, "the client has closed it");
        assert_eq!(owners.uid("127.0.0.1:1".parse().unwrap(), local), None, "there is no such socket");
        assert_eq!(owners.uid("[::1]:1".parse().unwrap(), local), None);
    }
}
