//! The published port is the bound one, whoever else wants it.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rdd_client::kubeconfig::Kubeconfig;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};

use crate::support::Product;

/// Shakes hands at the published port, trusting whom the published kubeconfig trusts.
fn shake_hands(product: &Product, port: u16, file: &Path) {
    let config = Kubeconfig::parse(&fs::read_to_string(file).unwrap()).unwrap();
    let cluster = config.resolve(Some(&product.context())).unwrap().cluster;
    assert_eq!(cluster.server, format!("https://127.0.0.1:{port}"));
    let mut roots = RootCertStore::empty();
    let bundle = STANDARD.decode(&cluster.certificate_authority_data).unwrap();
    for certificate in CertificateDer::pem_slice_iter(&bundle) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut session = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut tls = rustls::Stream::new(&mut session, &mut stream);
    tls.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    tls.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 "), "{answer:?}");
}

// Finding 355-I2, 355-I3, 355-S4, 355-T1
#[test]
fn status_kubeconfigs_and_the_bound_port_agree_when_the_first_choice_is_taken() {
    let Some(product) = Product::start() else { return };
    let first = product.first_port();
    let taken = TcpListener::bind(("127.0.0.1", first)).unwrap();
    product.enable().expect_success();
    let port = product.port();
    assert_ne!(port, first);
    shake_hands(&product, port, &product.own_file());
    shake_hands(&product, port, &product.users_file());
    // Finding 355-I1: what is there is kept, also over a restart, though the first choice is free again.
    drop(taken);
    product.rdd(&["svc", "stop"]).expect_success();
    product.rdd(&["svc", "start"]).expect_success();
    product.until("Ready");
    assert_eq!(product.port(), port);
    // Finding 355-S2: the next time it is chosen afresh.
    product.disable().expect_success();
    product.enable().expect_success();
    assert_eq!(product.port(), first);
    shake_hands(&product, first, &product.own_file());
}

// Finding 355-T1
#[test]
fn the_port_survives_a_writer_who_knows_nothing_of_it() {
    let Some(product) = Product::start() else { return };
    product.enable().expect_success();
    let port = product.port();
    for round in 0..10 {
        let cpus = format!("{{\"metadata\":{{\"labels\":{{\"round\":\"{round}\"}}}}}}");
        product.rdd(&["ctl", "patch", "app", "app", "--type=merge", "-p", &cpus]).expect_success();
        let status = format!(
            "{{\"status\":{{\"conditions\":[{{\"type\":\"Other{round}\",\"status\":\"True\",\"reason\":\"R\",\"message\":\"\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}}]}}}}"
        );
        product.rdd(&["ctl", "patch", "app", "app", "--subresource=status", "--type=merge", "-p", &status]);
    }
    product.until("Ready");
    assert_eq!(product.port(), port);
}
