//! Webhooks of a manager in a separate process, served over HTTPS on loopback.

use std::{any::Any, path::PathBuf, sync::Arc};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::{Api, Client, api::PostParams};
use rdd_stdx::{chain::Chain, clock::SharedClock, task::Group};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::Value;
use tokio_rustls::TlsAcceptor;

use super::{Answer, Hooks, Reachable, certificates};
use crate::{Error, listen as server, metrics::Metrics};

/// The maximum size of a review: it carries the old and the new object, each of the maximum size.
const REVIEW_BYTES_MAX: usize = 8 << 20;

/// Serves webhooks over HTTPS on loopback, with a certificate of the instance's authority.
#[derive(Debug, Clone)]
pub struct Https {
    /// The preferred port; if it is taken, the server uses a free one.
    pub port: u16,
    /// The directory of the instance's certificates.
    pub tls_dir: PathBuf,
    /// The manager that the certificate belongs to.
    pub manager: String,
    /// The controllers whose service names are in the certificate.
    pub controllers: Vec<String>,
    /// The clock, for the validity of certificates.
    pub clock: SharedClock,
}

impl Https {
    /// The TLS acceptor with the serving certificate, and the authority's certificate in PEM.
    pub(crate) fn acceptor(&self) -> Result<(TlsAcceptor, String), Error> {
        let told = |error: certificates::Error| Error::because("prepare the certificate of webhooks", error);
        let authority = certificates::authority(&self.tls_dir, &*self.clock).map_err(told)?;
        let controllers: Vec<_> = self.controllers.iter().map(String::as_str).collect();
        let pair = certificates::serving(&self.tls_dir, &self.manager, &controllers, &authority, &*self.clock);
        let pair = pair.map_err(told)?;
        let read = |error: rustls::pki_types::pem::Error| Error::because("read the certificate of webhooks", error);
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).map_err(read)?;
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(read)?;
        // Named, so that it does not depend on a process-wide default that another crate sets.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certificate], key))
            .map_err(|error| Error::because("serve webhooks with their certificate", error))?;
        Ok((TlsAcceptor::from(Arc::new(config)), authority.certificate))
    }
}

impl Https {
    /// Serves metrics over HTTPS to clients with a token of the API. Returns the port and a guard; dropping the guard stops the server.
    pub async fn serve_metrics(
        &self,
        port: u16,
        client: Client,
        metrics: Metrics,
    ) -> Result<(u16, Box<dyn Any + Send + Sync>), Error> {
        let (tls, _) = self.acceptor()?;
        let handler: server::Handler = Arc::new(move |request| {
            let (client, metrics) = (client.clone(), metrics.clone());
            Box::pin(async move { tell(&client, &metrics, &request).await })
        });
        let listening = server::Server::new(server::bind(port).await?, Some(tls), handler)?;
        let port = listening.port();
        let mut tasks = Group::default();
        tasks.spawn("metrics", listening.run());
        Ok((port, Box::new(std::sync::Mutex::new(tasks))))
    }
}

/// Responds with the metrics if the API server accepts the request's bearer token.
async fn tell(client: &Client, metrics: &Metrics, request: &server::Request) -> server::Response {
    if request.uri().path() != "/metrics" || request.method() != Method::GET {
        return server::bare(StatusCode::NOT_FOUND);
    }
    let header = request.headers().get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(token) = header.and_then(|value| value.strip_prefix("Bearer ")) else {
        return server::bare(StatusCode::UNAUTHORIZED);
    };
    // The API server decides: this process knows no tokens.
    let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
    let review = TokenReview { spec, ..TokenReview::default() };
    match Api::<TokenReview>::all(client.clone()).create(&PostParams::default(), &review).await {
        Ok(TokenReview { status: Some(TokenReviewStatus { authenticated: Some(true), .. }), .. }) => {
            server::text("application/openmetrics-text; version=1.0.0; charset=utf-8", metrics.text())
        }
        Ok(_) => server::bare(StatusCode::UNAUTHORIZED),
        Err(error) => {
            tracing::debug!(error = %Chain(&error), "could not ask the API about a token");
            server::bare(StatusCode::SERVICE_UNAVAILABLE)
        }
    }
}

impl Hooks for Https {
    fn serve(&self, hooks: Vec<(String, Answer)>) -> BoxFuture<'_, Result<Reachable, Error>> {
        Box::pin(async move {
            let (tls, ca_bundle) = self.acceptor()?;
            let hooks = Arc::new(hooks);
            let handler: server::Handler = Arc::new(move |request| {
                let hooks = Arc::clone(&hooks);
                Box::pin(async move { respond(&hooks, request).await })
            });
            let listening = server::Server::new(server::bind(self.port).await?, Some(tls), handler)?;
            let base = format!("https://127.0.0.1:{}", listening.port());
            let mut tasks = Group::default();
            tasks.spawn("webhooks", listening.run());
            // The mutex only makes the group `Sync`; it is never locked.
            Ok(Reachable { base, ca_bundle, held: Box::new(std::sync::Mutex::new(tasks)) })
        })
    }
}

async fn respond(hooks: &[(String, Answer)], request: server::Request) -> server::Response {
    let Some((_, answer)) = hooks.iter().find(|(path, _)| path == request.uri().path()) else {
        return server::bare(StatusCode::NOT_FOUND);
    };
    if request.method() != Method::POST {
        return server::bare(StatusCode::METHOD_NOT_ALLOWED);
    }
    // The port is open to every process on this machine, so the size of a request is limited.
    let Ok(body) = Limited::new(request.into_body(), REVIEW_BYTES_MAX).collect().await else {
        return server::bare(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let Ok(review) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return server::bare(StatusCode::BAD_REQUEST);
    };
    // The handler runs in its own task, so that a panic becomes a 500 response and does not close the connection.
    let mut tasks = Group::default();
    tasks.spawn("answer an admission review", answer(review));
    match tasks.next().await.map(|ended| ended.outcome) {
        Some(Ok(answer)) => server::text("application/json", Bytes::from(answer.to_string())),
        _ => server::bare(StatusCode::INTERNAL_SERVER_ERROR),
    }
}
