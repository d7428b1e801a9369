//! The built-in paths, as clients see them.

use std::{
    io::Write,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http_body_util::BodyExt;
use rdd_apiserver::{
    backup::{Backup, Making, Snapshot},
    health::Health,
    metrics::{Figure, Value},
    serve::Parts,
};
use rdd_client::Client;
use tokio::io::AsyncWriteExt;

use crate::support::{PATIENCE, TestServer, body, code, header, mk_version};

#[tokio::test]
async fn health_is_told_as_kubernetes_tells_it() {
    let broken = Arc::new(AtomicBool::new(false));
    let check = broken.clone();
    let server = TestServer::start_with(|parts| {
        parts.health = Health::default().check("datastore", move || {
            if check.load(Ordering::SeqCst) { Err("disk full".to_owned()) } else { Ok(()) }
        });
    })
    .await;
    assert_eq!(server.get("/readyz").await, (200, "ok".to_owned()));
    let verbose = "[+]ping ok\n[+]datastore ok\n[+]shutdown ok\nreadyz check passed\n";
    assert_eq!(server.get("/readyz?verbose").await, (200, verbose.to_owned()));
    let response = server.raw("GET", "/livez", "").await;
    assert_eq!(header(&response, "content-type"), Some("text/plain; charset=utf-8"));
    broken.store(true, Ordering::SeqCst);
    let failed = "[+]ping ok\n[-]datastore failed: reason withheld\nlivez check failed\n";
    assert_eq!(server.get("/livez").await, (500, failed.to_owned()));
    assert_eq!(server.get("/livez?exclude=datastore").await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn the_version_is_indented_json_without_a_newline() {
    let server = TestServer::start().await;
    let (code, text) = server.get("/version").await;
    assert_eq!(code, 200);
    let head = [
        ("major", "1"),
        ("minor", "35"),
        ("emulationMajor", "1"),
        ("emulationMinor", "35"),
        ("minCompatibilityMajor", "1"),
        ("minCompatibilityMinor", "34"),
        ("gitVersion", "v1.35.4+rdd-0.0.0"),
    ];
    let head = head.map(|(name, value)| format!("\n  \"{name}\": \"{value}\""));
    assert!(text.starts_with(&format!("{{{}", head.join(","))), "{text}");
    assert!(text.ends_with("\"\n}"));
    assert_eq!(serde_json::from_str::<rdd_apiserver::version::Version>(&text).unwrap(), mk_version());
}

#[tokio::test]
async fn the_index_lists_what_there_is_and_other_paths_are_not_found() {
    let server = TestServer::start().await;
    let (_, text) = server.get("/").await;
    let paths = "\"/\",\n    \"/echo\",\n    \"/healthz\",\n    \"/healthz/ping\",\n    \"/livez\"";
    assert!(text.starts_with(&format!("{{\n  \"paths\": [\n    {paths}")), "{text}");
    for path in ["/nowhere", "/readyz/nothing", "/datastore/backup"] {
        let response = server.raw("GET", path, "").await;
        assert_eq!((code(&response), body(&response)), (404, "404 page not found\n"), "{path}");
        assert_eq!(header(&response, "content-type"), Some("text/plain; charset=utf-8"));
    }
}

#[tokio::test]
async fn every_answer_has_the_common_headers_and_a_name() {
    let server = TestServer::start().await;
    for path in ["/version", "/nowhere", "/panic", "/livez"] {
        let response = server.raw("GET", path, "Audit-Id: my-name.1\r\n").await;
        assert_eq!(header(&response, "audit-id"), Some("my-name.1"), "{path}");
        assert_eq!(header(&response, "cache-control"), Some("no-cache, private"));
        assert_eq!(header(&response, "x-content-type-options"), Some("nosniff"));
        assert!(header(&response, "date").is_some());
    }
    let unknown = server.send("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").await;
    assert!(uuid::Uuid::parse_str(header(&unknown, "audit-id").unwrap()).is_ok(), "401 has one too");
}

#[tokio::test]
async fn only_reading_is_allowed_and_head_has_no_body() {
    let server = TestServer::start().await;
    for path in ["/", "/version", "/livez", "/metrics"] {
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let response = server.raw(method, path, "Content-Length: 0\r\n").await;
            assert_eq!(code(&response), 405, "{method} {path}");
            assert!(body(&response).contains("\"reason\":\"MethodNotAllowed\""));
        }
    }
    let response = server.raw("HEAD", "/livez", "").await;
    assert_eq!((code(&response), body(&response), header(&response, "content-length")), (200, "", Some("2")));
    let (mut sender, _tasks) = server.connect_http2().await;
    let response = sender.send_request(server.http2_request("HEAD", "/livez")).await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["content-length"]), (200, &"2".parse().unwrap()));
    assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty());
}

#[tokio::test]
async fn metrics_count_requests_and_carry_the_figures_of_others() {
    let figure = |name, value| Figure { name, help: "A test", value };
    let server = TestServer::start_with(|parts| {
        parts.figures.push(Box::new(move || {
            vec![figure("store_commits", Value::Counter(7.0)), figure("store_bytes", Value::Gauge(4096.0))]
        }));
    })
    .await;
    server.get("/version").await;
    server.get("/nowhere").await;
    server.send("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").await;
    let response = server.raw("GET", "/metrics", "").await;
    assert_eq!(header(&response, "content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    for line in [
        "apiserver_request_total{verb=\"GET\",code=\"200\"} 1",
        "apiserver_request_total{verb=\"GET\",code=\"404\"} 1",
        "apiserver_request_total{verb=\"GET\",code=\"401\"} 1",
        "apiserver_request_duration_seconds_count{verb=\"GET\"} 3",
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1",
        "store_commits_total 7.0",
        "store_bytes 4096.0",
        "# EOF",
    ] {
        assert!(response.lines().any(|found| found == line), "{line} in:\n{response}");
    }
    for start in [
        "apiserver_connections ",
        "process_start_time_seconds ",
        "process_resident_memory_bytes ",
        "process_cpu_seconds_total ",
        "process_open_fds ",
        "kubernetes_build_info{build_date=",
    ] {
        assert!(response.lines().any(|found| found.starts_with(start)), "{start} in:\n{response}");
    }
}

/// A backup of known content, whose file is removed after it is sent.
struct FileBackup {
    folder: tempfile::TempDir,
    size: usize,
    /// The number of copies made.
    made: AtomicUsize,
}

#[derive(Debug)]
struct RemoveOnDrop(PathBuf);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn content(size: usize) -> Vec<u8> {
    let pattern: Vec<u8> = (0..251).collect();
    let mut content = pattern.repeat(size / pattern.len() + 1);
    content.truncate(size);
    content
}

impl Backup for FileBackup {
    fn make(&self) -> Making {
        let name = match self.made.fetch_add(1, Ordering::SeqCst) {
            0 => "copy.db".to_owned(),
            number => format!("copy-{number}.db"),
        };
        let (path, size) = (self.folder.path().join(name), self.size);
        Box::pin(async move {
            if size == 0 {
                return Err("the disk is on fire".into());
            }
            std::fs::File::create(&path)?.write_all(&content(size))?;
            Ok(Snapshot { file: std::fs::File::open(&path)?, keep: Box::new(RemoveOnDrop(path)) })
        })
    }
}

async fn with_backup(size: usize) -> (TestServer, PathBuf) {
    let backup = Arc::new(FileBackup { folder: tempfile::tempdir().unwrap(), size, made: AtomicUsize::new(0) });
    let path = backup.folder.path().join("copy.db");
    let change = |parts: &mut Parts| {
        parts.backup = Some(backup);
        parts.limits.transfer_stall_time = Duration::from_millis(100);
    };
    (TestServer::start_with(change).await, path)
}

#[tokio::test]
async fn a_backup_is_streamed_whole_to_administrators_only() {
    let size = 1_000_003;
    let (server, path) = with_backup(size).await;
    let mut received = Vec::new();
    assert_eq!(server.client().download("/datastore/backup", &mut received).await.unwrap(), size as u64);
    assert!(received == content(size), "every byte arrives, in order");
    let gone = async {
        while path.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the copy is removed when it was sent");
    let user = Client::from_kubeconfig(&server.kubeconfig(), Some("user")).unwrap();
    let error = user.download("/datastore/backup", &mut received).await.unwrap_err();
    let url = user.url("/datastore/backup");
    let why = "forbidden: User \"user\" cannot get path \"/datastore/backup\" (403 Forbidden)";
    assert_eq!(error.to_string(), format!("get {url}: {why}"));
    assert_eq!(received.len(), size, "nothing was written");
    let response = server.raw("HEAD", "/datastore/backup", "").await;
    assert_eq!(code(&response), 405);
}

// Finding A-8
#[tokio::test]
async fn a_backup_that_its_client_does_not_read_holds_up_no_other_backup_and_not_the_end() {
    // More than the socket buffers of both sides of a connection.
    let size = 32 << 20;
    let (server, path) = with_backup(size).await;
    let mut unread = server.connect().await;
    let token = server.admin.reveal();
    let head = format!("GET /datastore/backup HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n");
    unread.write_all(head.as_bytes()).await.unwrap();
    let begun = async {
        while !path.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.expect("the first copy is made");
    let mut received = Vec::new();
    let second = server.client();
    let second = tokio::time::timeout(PATIENCE, second.download("/datastore/backup", &mut received));
    assert_eq!(second.await.expect("the second is not held up").unwrap(), size as u64);
    let drained = server.server.shutdown(PATIENCE * 2).await;
    assert_eq!(drained.cut_off, 1, "nobody has read the first");
    assert!(drained.elapsed < PATIENCE, "{drained:?}");
}

/// Truncates the file that is being sent when its first bytes arrive.
struct Saboteur {
    path: PathBuf,
    received: u64,
}

impl Write for Saboteur {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.received == 0 {
            std::fs::File::options().write(true).open(&self.path)?.set_len(1_000)?;
        }
        self.received += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_backup_that_breaks_off_never_passes_for_a_whole_one() {
    let size = 64 << 20;
    let (server, path) = with_backup(size).await;
    let mut saboteur = Saboteur { path, received: 0 };
    let error = server.client().download("/datastore/backup", &mut saboteur).await.unwrap_err();
    assert!(matches!(error, rdd_client::http::Error::Broken { .. }), "{error:?}");
    assert!(saboteur.received < size as u64);
}

#[tokio::test]
async fn a_backup_that_fails_is_a_500_that_tells_the_administrator_why() {
    let (server, _) = with_backup(0).await;
    let (code, text) = server.get("/datastore/backup").await;
    assert_eq!(code, 500);
    assert!(text.contains("the backup could not be made: the disk is on fire"), "{text}");
    assert!(crate::log::text().contains("the disk is on fire"));
}
