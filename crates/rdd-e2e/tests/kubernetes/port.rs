//! Tests that the published port is the bound one, even if another process uses the preferred port.

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

/// Connects to the published port with TLS, with the certificate authority of the published kubeconfig.
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

/// Reads a file of the repository.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The arguments of the command with which the documentation shows the port.
fn documented_command() -> Vec<String> {
    let text = read("docs/concepts/kubeconfig.md");
    let line = text.lines().find(|line| line.starts_with("rdd ctl get app")).expect("the command is documented");
    line.split(' ').skip(1).map(str::to_owned).collect()
}

// Finding 355-S4
#[test]
fn documents_and_examples_name_the_first_choice_of_the_port_and_no_fixed_address() {
    let port_of = |instance: &str| {
        let environment = rdd_instance::Environment {
            home: Some("/home/ann".into()),
            instance: (!instance.is_empty()).then(|| instance.to_owned()),
            ..Default::default()
        };
        rdd_instance::Instance::resolve(&environment, rdd_instance::Platform::Linux).unwrap().ports.kubernetes
    };
    let (base, default) = (port_of("1") - 1, port_of(""));
    for (path, words) in [("docs/concepts/kubeconfig.md", "plus"), ("docs/concepts/virtual-machine.md", "and")] {
        let expected = format!("{base} {words} the instance's index ({default} for the default");
        assert!(read(path).contains(&expected), "{path} does not say {expected:?}");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("docs"), root.join("examples")];
    let mut files = vec![root.join("README.md")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            // Decision records describe single cases with their actual numbers.
            if entry.ends_with("docs/adr") {
                continue;
            }
            if entry.is_dir() { folders.push(entry) } else { files.push(entry) }
        }
    }
    for file in files {
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        let address = format!(":{default}");
        assert!(!text.contains(&address), "{} names {address}: the port is in the status", file.display());
    }
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
    // Finding 355-S4: the documented command prints the bound port.
    let words = documented_command();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(product.rdd(&words).expect_success().stdout.trim(), port.to_string(), "{words:?}");
    // Finding 355-I1: a published port is kept, even after a restart when the preferred port is free again.
    drop(taken);
    product.rdd(&["svc", "stop"]).expect_success();
    product.rdd(&["svc", "start"]).expect_success();
    product.until("Ready");
    assert_eq!(product.port(), port);
    // Finding 355-S2: the next time it is enabled, a port is chosen again.
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
        // Finding 355-I1: this write removes all other conditions, and the next reconcile restores them.
        let words = ["ctl", "patch", "app", "app", "--subresource=status", "--type=merge", "-p", &status];
        product.rdd(&words).expect_success();
    }
    product.until("Ready");
    assert_eq!(product.port(), port);
}
