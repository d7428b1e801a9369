//! Runs etcd for comparison, on loopback, with its data on the same disk and with fsync enabled.

use std::{
    fs::File,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::{Child, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use rdd_stdx::process::background;

use crate::{
    grpc::{Channel, put_bytes_field},
    load::Put,
};

const STARTS_WITHIN: Duration = Duration::from_secs(20);
/// The number of connections, as several clients would have; more bring no gain on two cores.
const CONNECTIONS: usize = 8;

/// An etcd process that is killed when this value is dropped, or when this process ends for any reason.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    authority: String,
}

impl Server {
    /// Starts etcd with its data in a new folder.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let (client, peer) = (free_port()?, free_port()?);
        let log = File::create(folder.join("log")).context("make a log for etcd")?;
        // setpriv has the kernel kill etcd when this process dies, even from SIGKILL.
        let mut command = background("setpriv", folder);
        command.args(["--pdeathsig", "KILL", "etcd", "--data-dir"]).arg(folder.join("data"));
        for (option, port) in [("client", client), ("peer", peer)] {
            command.args([format!("--listen-{option}-urls=http://127.0.0.1:{port}")]);
        }
        command.arg(format!("--advertise-client-urls=http://127.0.0.1:{client}"));
        command.arg(format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"));
        command.arg(format!("--initial-cluster=default=http://127.0.0.1:{peer}"));
        // Enough for the history of a long run, so that no round ends at the quota.
        command.arg("--quota-backend-bytes=8589934592");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdout(Stdio::null()).stderr(log);
        let child = command.spawn().context("start etcd (is etcd-server installed? run make setup)")?;
        Ok(Self { child, authority: format!("127.0.0.1:{client}") })
    }

    /// Connects to the server, once it accepts writes.
    pub(crate) async fn clients(&mut self) -> Result<Vec<Arc<Client>>> {
        let deadline = Instant::now() + STARTS_WITHIN;
        loop {
            if let Some(status) = self.child.try_wait().context("look at etcd")? {
                bail!("etcd ended ({status}): its log is in the folder of the benchmark");
            }
            match self.try_connect().await {
                Ok(clients) => return Ok(clients),
                Err(error) if Instant::now() >= deadline => return Err(error.context("etcd does not take writes")),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn try_connect(&self) -> Result<Vec<Arc<Client>>> {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = Client { channel: Channel::connect(&self.authority).await? };
            client.put("/ready".to_owned(), Bytes::new()).await?;
            clients.push(Arc::new(client));
        }
        Ok(clients)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has no state worth keeping, and it may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free port; another process may take it before it is used.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr().context("find a free port")?.port())
}

/// A connection to etcd.
#[derive(Debug)]
pub(crate) struct Client {
    channel: Channel,
}

impl Put for Client {
    async fn put(&self, key: String, value: Bytes) -> Result<()> {
        // A PutRequest: field 1 is the key, field 2 the value.
        let mut message = Vec::with_capacity(key.len() + value.len() + 8);
        put_bytes_field(&mut message, 1, key.as_bytes());
        put_bytes_field(&mut message, 2, &value);
        self.channel.call("/etcdserverpb.KV/Put", &message).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::drive;

    #[test]
    fn etcd_takes_our_writes_and_is_gone_afterwards() {
        if !rdd_testkit::capability::require("etcd") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut server = Server::start(folder.path()).unwrap();
        let pid = server.child.id();
        let round = runtime.block_on(async {
            let clients = server.clients().await.unwrap();
            drive(&clients, 4, Duration::from_millis(300)).await.unwrap()
        });
        assert!(!round.latencies.is_empty());
        drop(server);
        assert!(rdd_testkit::processes::look_at(pid).is_none());
    }
}
