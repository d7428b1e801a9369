//! The daemon's API, as far as a command needs it: a few paths, asked one at a time.

use std::{io::Write, time::Duration};

use rdd_client::{
    http::Client,
    kubeconfig::{self, Kubeconfig},
};
use tokio::runtime::{Builder, Runtime};

/// A call that answers at all answers within this; readiness is asked again anyway.
const CALL_BOUND: Duration = Duration::from_secs(15);

/// Why the API could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kubeconfig is not one.
    #[error("read the kubeconfig of the control plane")]
    Kubeconfig(#[source] kubeconfig::Error),
    /// No runtime for the call.
    #[error("prepare a call to the control plane")]
    Runtime(#[source] std::io::Error),
    /// The call failed.
    #[error(transparent)]
    Call(#[from] rdd_client::http::Error),
}

/// A connection to make, with the credentials for it.
#[derive(Debug)]
pub struct Api {
    client: Client,
    runtime: Runtime,
}

impl Api {
    /// From the text of a kubeconfig.
    pub fn from_kubeconfig(text: &str) -> Result<Self, Error> {
        let config = Kubeconfig::parse(text).map_err(Error::Kubeconfig)?;
        let client = Client::from_kubeconfig(&config, None).map_err(Error::Kubeconfig)?.with_timeout(CALL_BOUND);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
        Ok(Self { client, runtime })
    }

    /// Where the server is.
    pub fn server(&self) -> String {
        self.client.url("")
    }

    /// The status of `GET path` and its body.
    pub fn get(&self, path: &str) -> Result<(u16, Vec<u8>), Error> {
        let response = self.runtime.block_on(self.client.get(path))?;
        Ok((response.status.as_u16(), response.body.to_vec()))
    }

    /// Copies the body of `GET path`, which must succeed.
    pub fn download(&self, path: &str, target: &mut (dyn Write + Send)) -> Result<(), Error> {
        self.runtime.block_on(self.client.download(path, target))?;
        Ok(())
    }
}
