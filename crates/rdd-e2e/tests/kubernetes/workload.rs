//! A workload for real pods without a network: one image of a static busybox under two names, a Deployment and a Service.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_stdx::process;
use rdd_testkit::bounded::{Outcome, run};

/// How long pods may take to start and to become reachable.
pub(crate) const PODS_TAKE: Duration = Duration::from_secs(180);
/// The pause image, which holds a pod's namespaces; K3s is configured to use it.
pub(crate) const PAUSE_IMAGE: &str = "rdd.test/pause:1";
/// The image of the pod.
pub(crate) const IMAGE: &str = "rdd.test/box:1";
/// The content that the pod serves.
pub(crate) const PAGE: &str = "hello from a pod";
/// The Service's port on every node.
pub(crate) const NODE_PORT: u16 = 30_080;
/// K3s' own components are disabled: their images would be pulled, and tests do not use the network.
pub(crate) const K3S_CONFIG: &str = "pause-image: rdd.test/pause:1\n\
    disable: [coredns, local-storage, metrics-server, servicelb, traefik]\ndisable-helm-controller: true\n";
/// A Deployment with one pod, and a Service with a NodePort.
pub(crate) const MANIFEST: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: rdd.test/box:1
        imagePullPolicy: Never
        command: [/bin/busybox, httpd, -f, -p, "8080", -h, /www]
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /index.html, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080, nodePort: 30080}]
"#;

/// The entry point of the image with this name; the pause container only has to keep running.
pub(crate) fn entrypoint(tag: &str) -> &'static str {
    if tag == PAUSE_IMAGE { r#"["/bin/busybox","sleep","1000000"]"# } else { r#"["/bin/busybox","sh"]"# }
}

/// Creates a tar archive with the root folder of both images.
pub(crate) fn make_image(folder: &Path) -> PathBuf {
    let (root, archive) = (folder.join("box-root"), folder.join("box-root.tar"));
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::create_dir_all(root.join("www")).unwrap();
    fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    fs::write(root.join("www/index.html"), format!("{PAGE}\n")).unwrap();
    let mut pack = process::background("tar", folder);
    pack.arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".");
    match run(&mut pack, Duration::from_secs(60), |_| ()).unwrap() {
        Outcome::Ended(output) => drop(output.expect_success()),
        Outcome::TimedOut(_) => panic!("tar took too long"),
    }
    archive
}

/// Requests the page; an error is the reply or the connection's error.
pub(crate) fn fetch(host: &str, port: u16) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect((host, port)).map_err(text)?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(text)?;
    stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").map_err(text)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(text)?;
    if answer.contains(PAGE) { Ok(()) } else { Err(answer) }
}
