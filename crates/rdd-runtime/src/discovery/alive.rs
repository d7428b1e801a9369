//! Checks whether a registered manager is alive, by a request to its health port.

use std::{io, net::Ipv4Addr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::Entry;

/// How long the manager may take to answer.
const BOUND: Duration = Duration::from_secs(2);

/// Whether the manager is alive. False only if it is certainly gone: nothing listens on its port, or another process does. A manager that
/// does not answer in time counts as alive: it may be busy or stopped, and would act again when it continues.
pub(crate) async fn is_alive(entry: &Entry) -> bool {
    let path = if entry.id.is_empty() { "/healthz".to_owned() } else { format!("/alive/{}", entry.id) };
    match timeout(BOUND, ask(entry.health_port, &path)).await {
        Ok(Ok(said_yes)) => said_yes,
        Ok(Err(_)) => false,
        Err(_) => true,
    }
}

/// Whether the response has status 200.
async fn ask(port: u16, path: &str) -> io::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    // The status line is enough: `HTTP/1.1 200`.
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    Ok(head.ends_with(b" 200"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{health::Health, listen, supervise::Supervisor};
    use tokio_util::sync::CancellationToken;

    fn entry(port: u16, id: &str) -> Entry {
        let text = format!(
            r#"{{"healthPort":{port},"metricsPort":1,"enabledControllers":null,"startTime":"","healthEndpoint":"","metricsEndpoint":"",
                "passthroughEndpoint":"","id":"{id}"}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[tokio::test]
    async fn only_the_one_that_registered_counts_as_alive() {
        let supervisor = Supervisor::new(CancellationToken::new());
        let health = Health::new("me", supervisor.clone());
        let server = listen::Server::new(listen::bind(0).await.unwrap(), None, health.handler()).unwrap();
        let port = server.port();
        supervisor.start("health".to_owned(), move || Box::pin(server.clone().run()));
        assert!(is_alive(&entry(port, "me")).await, "although it is not ready yet");
        assert!(!is_alive(&entry(port, "you")).await, "another one has the port now");
        supervisor.cut();
        supervisor.ended().await;
        assert!(!is_alive(&entry(port, "me")).await, "nobody listens");
    }

    #[tokio::test]
    async fn one_that_does_not_answer_may_only_be_slow() {
        let silent = listen::bind(0).await.unwrap();
        assert!(is_alive(&entry(silent.local_addr().unwrap().port(), "me")).await);
    }
}
