//! Reports the daemon's progress with systemd's notification protocol.
//!
//! `svc start` listens on a notification socket too, so that it learns of readiness or failure without polling.

use std::{
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt, net::UnixDatagram},
};

/// The notification socket, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notifier(Option<OsString>);

impl Notifier {
    /// Creates a notifier from the value of `NOTIFY_SOCKET`.
    pub(crate) fn new(socket: Option<&OsStr>) -> Self {
        Self(socket.map(OsStr::to_owned))
    }

    /// Reports the daemon's current activity, for people.
    pub(crate) fn status(&self, text: &str) {
        self.send(&format!("STATUS={}", one_line(text)));
    }

    /// Reports that the daemon serves requests, with its PID.
    pub(crate) fn ready(&self) {
        self.send(&format!("READY=1\nMAINPID={}\nSTATUS=ready", std::process::id()));
    }

    /// Reports that the daemon is stopping.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    /// Reports that the daemon could not start, and why.
    pub(crate) fn failed(&self, reason: &str) {
        let reason = one_line(reason);
        self.send(&format!("X_RDD_ERROR={reason}\nSTATUS={reason}"));
    }

    /// Reports that the daemon refuses writes for this reason. `ready` follows when the reason is gone.
    pub(crate) fn read_only(&self, reason: &str) {
        let reason = one_line(reason);
        self.send(&format!("X_RDD_READ_ONLY={reason}\nSTATUS={reason}"));
    }

    /// Sends a message. Errors are ignored, because the daemon also runs without a listener.
    fn send(&self, message: &str) {
        let Some(address) = &self.0 else { return };
        if let Err(error) = send_to(address, message.as_bytes()) {
            tracing::debug!(%error, "nobody took the notification");
        }
    }
}

fn send_to(address: &OsStr, message: &[u8]) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    // Without this, the send would block while the queue of a receiver that never reads is full.
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = address.as_bytes().strip_prefix(b"@") {
        use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
        return socket.send_to_addr(message, &SocketAddr::from_abstract_name(name)?).map(drop);
    }
    socket.send_to(message, address).map(drop)
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn ready_and_failure_reach_a_socket_by_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::new(Some(path.as_os_str()));
        notifier.ready();
        assert!(received(&socket).starts_with("READY=1\n"));
        notifier.failed("disk\nfull");
        assert_eq!(received(&socket), "X_RDD_ERROR=disk full\nSTATUS=disk full");
        notifier.read_only("disk\nfull");
        assert_eq!(received(&socket), "X_RDD_READ_ONLY=disk full\nSTATUS=disk full");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_abstract_address_works_too() {
        use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
        let name = format!("rdd-notify-test-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Notifier::new(Some(OsStr::new(&format!("@{name}")))).status("opening the datastore");
        assert_eq!(received(&socket), "STATUS=opening the datastore");
    }

    #[test]
    fn nobody_listening_is_fine() {
        Notifier::new(None).ready();
        Notifier::new(Some(OsStr::new("/nonexistent/notify"))).ready();
    }
}
