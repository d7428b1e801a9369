//! A small client for the daemon's API: one blocking call at a time.

use std::{io::Write, time::Duration};

use rdd_client::{
    http::Client,
    kubeconfig::{self, Kubeconfig},
};
use tokio::runtime::{Builder, Runtime};

/// The timeout of a download: before it begins, the daemon copies and verifies the datastore, which depends on the disk.
const DOWNLOAD_BOUND: Duration = Duration::from_secs(600);

/// Why a call to the API failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kubeconfig is invalid.
    #[error("read the kubeconfig of the control plane")]
    Kubeconfig(#[source] kubeconfig::Error),
    /// The async runtime for the call could not be created.
    #[error("prepare a call to the control plane")]
    Runtime(#[source] std::io::Error),
    /// The call failed: connection, TLS, HTTP or timeout.
    #[error(transparent)]
    Call(#[from] rdd_client::http::Error),
}

impl Error {
    /// Whether the call timed out.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Call(rdd_client::http::Error::Timeout { .. }))
    }
}

/// A client with the daemon's address and credentials. It connects on the first call.
#[derive(Debug)]
pub struct Api {
    client: Client,
    runtime: Runtime,
    /// The timeout before a download begins and between its parts.
    download_bound: Duration,
}

impl Api {
    /// Creates a client from the text of a kubeconfig.
    pub fn from_kubeconfig(text: &str) -> Result<Self, Error> {
        let config = Kubeconfig::parse(text).map_err(Error::Kubeconfig)?;
        let client = Client::from_kubeconfig(&config, None).map_err(Error::Kubeconfig)?;
        // Commands are synchronous; each call runs on this runtime to its end.
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
        Ok(Self { client, runtime, download_bound: DOWNLOAD_BOUND })
    }

    /// The server's URL.
    pub fn server(&self) -> String {
        self.client.url("")
    }

    /// Calls `GET path` with this timeout. Returns the status code and the body, whatever the code is.
    pub fn get(&self, path: &str, within: Duration) -> Result<(u16, Vec<u8>), Error> {
        let client = self.client.clone().with_timeout(within);
        let response = self.runtime.block_on(client.get(path))?;
        Ok((response.status.as_u16(), response.body.to_vec()))
    }

    /// Copies the body of `GET path` to `target`. Fails unless the status code is a success. Only pauses are limited, not the total time.
    pub fn download(&self, path: &str, target: &mut (dyn Write + Send)) -> Result<(), Error> {
        let client = self.client.clone().with_timeout(self.download_bound);
        self.runtime.block_on(client.download(path, target))?;
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A certificate to trust; its key does not exist any more.
    const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBhzCCASygAwIBAgIUVmuRgBD/NT8EwSiKoL+TiA39EScwCgYIKoZIzj0EAwIw\n\
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMTUxMTA2MzVaGA8yMTI2MTAyMjExMDYz\n\
NVowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNx5\n\
q0kyhL77R0bFNbRL+3GBvFQ//mSougt8xJqUzThemf/OT/cbcpmISscqHSSkSw4j\n\
88iVbyDOGlZvLmBYV4ijZDBiMB0GA1UdDgQWBBRwyG791yQRvYxAp2GAmraAD70E\n\
CDAfBgNVHSMEGDAWgBRwyG791yQRvYxAp2GAmraAD70ECDAPBgNVHRMBAf8EBTAD\n\
AQH/MA8GA1UdEQQIMAaHBH8AAAEwCgYIKoZIzj0EAwIDSQAwRgIhAL6uEGQLItkQ\n\
8Ln9LtkTzg9EdYaGGt4pnL2ctEbqONgnAiEAkSeXlMx2Xax55WIo45uRNTv/tUEZ\n\
wEajRMgv3tVu4/0=\n\
-----END CERTIFICATE-----\n";

    pub(in crate::service) fn mk_api(port: u16) -> Api {
        let config = Kubeconfig::for_daemon(port, CERTIFICATE, "token", "");
        Api::from_kubeconfig(&config.render().unwrap()).unwrap()
    }

    #[test]
    fn a_question_and_a_download_have_bounds_of_their_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut api = mk_api(listener.local_addr().unwrap().port());
        let asked = api.get("/version", Duration::from_millis(50)).unwrap_err();
        assert!(asked.to_string().ends_with("no answer within 50ms"), "{asked}");
        assert_eq!(api.download_bound, Duration::from_secs(600));
        api.download_bound = Duration::from_millis(60);
        let fetched = api.download("/datastore/backup", &mut Vec::new()).unwrap_err();
        assert!(fetched.to_string().ends_with("no answer within 60ms"), "{fetched}");
    }
}
