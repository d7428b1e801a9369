//! Probes the address of a context; only one where certainly nothing listens counts as broken.

use std::{io, path::Path, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    time::timeout,
};

/// The timeout of a probe.
pub(super) const TAKES: Duration = Duration::from_secs(3);

/// The request that a probe sends.
const PING: &[u8] = b"GET /_ping HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n";

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Health {
    /// An engine or a server answers.
    Well,
    /// Certainly nothing listens, with the evidence.
    Broken(String),
    /// Unknown, with the reason.
    Doubtful(String),
}

/// Probes the address of a context.
pub(super) async fn probe(host: &str) -> Health {
    let asked = async {
        match host.split_once("://") {
            Some(("unix", path)) => ping(Path::new(path)).await,
            Some(("tcp", address)) => connect(address).await,
            _ => Health::Doubtful("only an engine behind unix:// or tcp:// is asked".to_owned()),
        }
    };
    let late = || Health::Doubtful(format!("it did not answer within {} s", TAKES.as_secs()));
    timeout(TAKES, asked).await.unwrap_or_else(|_| late())
}

/// Pings an engine on a unix socket. Any HTTP answer counts, even an error.
async fn ping(path: &Path) -> Health {
    let mut stream = match UnixStream::connect(path).await {
        Ok(stream) => stream,
        Err(error) => return unreachable(&error),
    };
    let asked = async {
        stream.write_all(PING).await?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    match asked.await {
        Ok(answer) if &answer == b"HTTP/" => Health::Well,
        Ok(_) => Health::Doubtful("what answers is no container engine".to_owned()),
        Err(error) => Health::Doubtful(format!("it hung up: {error}")),
    }
}

/// Connects to a TCP address. An accepted connection is enough; TLS is not checked.
async fn connect(address: &str) -> Health {
    let address = address.trim_end_matches('/');
    if address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
        return Health::Doubtful("its address names no port".to_owned());
    }
    match TcpStream::connect(address).await {
        Ok(_) => Health::Well,
        Err(error) => unreachable(&error),
    }
}

/// Classifies a failed connection. A missing socket and a refused connection are certain. A name that does not resolve, a network
/// that is down or a missing permission may be different in a minute, or for the command that the user types.
fn unreachable(error: &io::Error) -> Health {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Health::Broken(error.to_string()),
        _ => Health::Doubtful(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use rdd_stdx::task::Group;
    use tokio::net::{TcpListener, UnixListener};

    use super::*;

    /// An engine that sends this to every client.
    async fn answering(answer: &'static [u8]) -> Health {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let mut tasks = Group::default();
        tasks.spawn("engine", async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; PING.len()];
            stream.read_exact(&mut asked).await.unwrap();
            stream.write_all(answer).await.unwrap();
        });
        probe(&format!("unix://{}", path.display())).await
    }

    fn is_doubtful(health: &Health) -> bool {
        matches!(health, Health::Doubtful(_))
    }

    #[tokio::test]
    async fn whoever_answers_as_an_engine_is_well_also_with_an_error() {
        assert_eq!(answering(b"HTTP/1.1 200 OK\r\n\r\nOK").await, Health::Well);
        assert_eq!(answering(b"HTTP/1.1 500 Internal Server Error\r\n\r\n").await, Health::Well);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        assert_eq!(probe(&format!("tcp://{}", listener.local_addr().unwrap())).await, Health::Well);
    }

    #[tokio::test]
    async fn what_answers_something_else_or_hangs_up_is_in_doubt() {
        assert!(is_doubtful(&answering(b"SSH-2.0").await));
        assert!(is_doubtful(&answering(b"").await));
    }

    #[tokio::test]
    async fn no_socket_and_a_socket_without_a_listener_are_broken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let host = format!("unix://{}", path.display());
        assert!(matches!(probe(&host).await, Health::Broken(_)), "no socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(probe(&host).await, Health::Broken(_)), "nobody listens");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = format!("tcp://{}", listener.local_addr().unwrap());
        drop(listener);
        assert!(matches!(probe(&host).await, Health::Broken(_)), "nobody listens there either");
    }

    #[tokio::test]
    async fn an_address_that_we_cannot_judge_is_in_doubt() {
        for host in
            ["ssh://me@host", "npipe:////./pipe/docker_engine", "fd://3", "", "tcp://nowhere", "/run/docker.sock"]
        {
            assert!(is_doubtful(&probe(host).await), "{host}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_says_nothing_is_in_doubt_after_three_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        let health = probe(&format!("unix://{}", path.display())).await;
        assert_eq!(health, Health::Doubtful("it did not answer within 3 s".to_owned()));
    }
}
