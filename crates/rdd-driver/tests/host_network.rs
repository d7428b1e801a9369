//! Engines in one network namespace leave each other alone: ports answer, containers reach out, nobody reaches in.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod room;

use std::{
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Child,
    sync::Arc,
    time::Duration,
};

use rdd_driver::{Driver, LogOptions, Run, State, Stopped, suite};
use rdd_stdx::process::{self, Process, Signal};
use rdd_testkit::eventually;
use room::{Place, docker_at, import_image_at, run, running_leftovers, succeeds};

const VM: &str = "rd";
const GRACE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(60);
/// This host, and somebody far away, as they see each other.
const HERE: &str = "203.0.113.1";
const THERE: &str = "203.0.113.2";
const TEMPLATE: &str = "vmType: host\n";

/// The world: another network namespace with a web server, and a wire to it.
struct World {
    server: Child,
}

impl World {
    fn new() -> Self {
        run("mkdir", &["-p", "/run/netns", "/run/www"]);
        std::fs::write("/run/www/index.html", "from far away\n").unwrap();
        run("ip", &["netns", "add", "world"]);
        run("ip", &["link", "add", "up0", "type", "veth", "peer", "name", "w0", "netns", "world"]);
        run("ip", &["addr", "add", &format!("{HERE}/24"), "dev", "up0"]);
        run("ip", &["link", "set", "up0", "up"]);
        run("ip", &["-n", "world", "addr", "add", &format!("{THERE}/24"), "dev", "w0"]);
        run("ip", &["-n", "world", "link", "set", "w0", "up"]);
        let mut command = process::background("ip", Path::new("/"));
        command.args(["netns", "exec", "world", "busybox", "httpd", "-f", "-p", "8000", "-h", "/run/www"]);
        let server = command.spawn().unwrap();
        let world = Self { server };
        eventually("the web server of the world", SOON, || fetch_from_here(&format!("{THERE}:8000")));
        world
    }

    /// From now on somebody far away sends packets for addresses behind us to us. Before, an answer reached only what
    /// hides behind our own address.
    fn learn_the_way(&self) {
        run("ip", &["-n", "world", "route", "add", "default", "via", HERE]);
    }

    /// Whether somebody far away gets an answer.
    fn reaches(&self, address: &str) -> bool {
        let (host, port) = address.split_once(':').unwrap();
        let script = format!(
            "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 10 busybox nc -w 3 {host} {port} | grep -q from.inside"
        );
        succeeds("ip", &["netns", "exec", "world", "sh", "-c", &script])
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn fetch_from_here(address: &str) -> Result<(), String> {
    use std::io::{Read as _, Write as _};
    let address: SocketAddr = address.parse().unwrap();
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(3)).map_err(text)?;
    stream.set_read_timeout(Some(Duration::from_secs(3))).map_err(text)?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").map_err(text)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(text)?;
    if answer.contains("from ") { Ok(()) } else { Err(format!("{answer:?}")) }
}

/// Whether a container in this network gets an answer from an address.
fn container_reaches(socket: &Path, network: &str, address: &str) -> bool {
    let (host, port) = address.split_once(':').unwrap();
    let script = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 3 {host} {port}");
    let url = format!("unix://{}", socket.display());
    let arguments = ["-H", &url, "run", "--rm", "--network", network, "box", "/bin/sh", "-c", &script];
    room::try_run("docker", &arguments).1.contains("from ")
}

/// An engine that is not ours, with Docker's own ways.
struct System {
    folder: tempfile::TempDir,
    process: Child,
}

impl System {
    fn start(options: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("rdd-s").tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let mut command = process::background("dockerd", folder.path());
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        std::fs::write(folder.path().join("daemon.json"), "{}").unwrap();
        command.args(["--config-file", &at("daemon.json"), "--data-root", &at("data"), "--exec-root", "/run/system"]);
        command.args(["--pidfile", &at("pid"), "-H", &format!("unix://{}", at("docker.sock"))]).args(options);
        let process = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let system = Self { folder, process };
        eventually("the other engine", SOON, || {
            let url = format!("unix://{}", system.socket().display());
            succeeds("docker", &["-H", &url, "version"]).then_some(())
        });
        system
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("docker.sock")
    }

    fn serve(&self) {
        import_image_at(&self.socket());
        serve(&self.socket(), &[], 18082);
    }
}

/// Starts a web server in a container, published at this port.
fn serve(socket: &Path, options: &[&str], port: u16) {
    let published = format!("{port}:80");
    let command = ["--name", "web", "-p", &published, "box", "/bin/httpd", "-f", "-p", "80", "-h", "/www"];
    docker_at(socket, &[&["run", "-d"], options, &command].concat());
}

impl Drop for System {
    fn drop(&mut self) {
        if let Ok(Some(process)) = Process::open(self.process.id()) {
            let _ = process.signal(Signal::TERM);
            if !process.wait(Duration::from_secs(30)).unwrap_or(true) {
                let _ = self.process.kill();
            }
        }
        let _ = self.process.wait();
    }
}

/// Starts the engine of a machine and waits until it answers.
async fn up(driver: &dyn Driver) -> Run {
    driver.create(VM, TEMPLATE).await.unwrap();
    let mut run = driver.start(VM, &LogOptions::default()).await.unwrap();
    loop {
        match tokio::time::timeout(Duration::from_secs(180), run.next()).await.expect("an engine in time") {
            Some(State::Starting) => {}
            Some(State::Running(health)) if !health.is_degraded() => return run,
            other => panic!("{other:?}"),
        }
    }
}

/// An instance with an engine, a web server in a container, and some networks.
struct Tenant {
    place: Place,
    driver: Arc<dyn Driver>,
    port: u16,
}

impl Tenant {
    async fn new(instance: &str, port: u16, subnet: &str) -> Self {
        let place = Place::new(instance);
        let driver: Arc<dyn Driver> = Arc::new(place.host());
        up(&*driver).await;
        place.import_image(VM);
        place.docker(VM, &["network", "create", "some"]);
        place.docker(VM, &["network", "create", "--subnet", subnet, "chosen"]);
        place.docker(VM, &["network", "create", "--internal", "inner"]);
        let tenant = Self { place, driver, port };
        tenant.serve();
        tenant
    }

    fn serve(&self) {
        serve(&self.socket(), &["--restart=always", "--stop-timeout", "1"], self.port);
    }

    fn socket(&self) -> PathBuf {
        self.place.engine(VM).docker_socket
    }

    fn address(&self) -> String {
        let format = "{{.NetworkSettings.IPAddress}}";
        self.place.docker(VM, &["inspect", "-f", format, "web"]).trim().to_owned()
    }

    /// All that has to hold at any time.
    #[track_caller]
    fn check(&self, world: &World, when: &str) {
        let port = self.port;
        let here = fetch_from_here(&format!("127.0.0.1:{port}"));
        assert_eq!(here, Ok(()), "{when}: the published port answers on this host");
        assert!(world.reaches(&format!("{HERE}:{port}")), "{when}: the published port answers from outside");
        for network in ["bridge", "some", "chosen"] {
            let reaches = || container_reaches(&self.socket(), network, &format!("{THERE}:8000"));
            assert!(reaches(), "{when}: a container of network {network} reaches out\n{}", rules());
        }
    }
}

fn rules() -> String {
    run("iptables-save", &[])
}

// Issue 5: before, during and after another instance and a system Docker start and stop.
#[test]
fn ports_answer_and_containers_reach_out_whatever_other_engines_do() {
    if !room::enter("ports_answer_and_containers_reach_out_whatever_other_engines_do") {
        return;
    }
    let world = World::new();
    suite::run(async {
        let one = Tenant::new("2", 18080, "192.168.77.0/24").await;
        one.check(&world, "alone");
        let other = Tenant::new("3", 18081, "192.168.78.0/24").await;
        one.check(&world, "with another instance");
        other.check(&world, "beside another instance");
        let system = System::start(&[]);
        one.check(&world, "with a system's engine");
        system.serve();
        one.check(&world, "with a system's engine that publishes");
        other.check(&world, "beside both");
        assert_eq!(other.driver.stop(VM, GRACE).await.unwrap(), Stopped::Graceful);
        assert_eq!(running_leftovers(&other.place, VM), Vec::<String>::new());
        one.check(&world, "after the other instance has stopped");
        assert!(world.reaches(&format!("{HERE}:18082")), "the system's engine has lost nothing");
        drop(system);
        one.check(&world, "after the system's engine has stopped");
        up(&*other.driver).await;
        eventually("the other's container", SOON, || fetch_from_here("127.0.0.1:18081"));
        one.check(&world, "after the other instance has started again");
        other.check(&world, "started again");
        for tenant in [&one, &other] {
            tenant.driver.delete(VM).await.unwrap();
            assert_eq!(room::leftovers(&tenant.place, VM), Vec::<String>::new());
        }
    });
}

// What we start must not break what was there: a system's engine without its proxy depends on its rules alone.
#[test]
fn the_rules_of_a_system_engine_survive_ours() {
    if !room::enter("the_rules_of_a_system_engine_survive_ours") {
        return;
    }
    let world = World::new();
    suite::run(async {
        let system = System::start(&["--userland-proxy=false"]);
        system.serve();
        eventually("the system's container", SOON, || world.reaches(&format!("{HERE}:18082")).then_some(()));
        let before = rules_but_ours();
        let tenant = Tenant::new("2", 18080, "192.168.77.0/24").await;
        tenant.check(&world, "beside a system's engine");
        assert!(world.reaches(&format!("{HERE}:18082")));
        assert!(container_reaches(&system.socket(), "bridge", &format!("{THERE}:8000")));
        assert_eq!(tenant.driver.stop(VM, GRACE).await.unwrap(), Stopped::Graceful);
        assert!(world.reaches(&format!("{HERE}:18082")));
        tenant.driver.delete(VM).await.unwrap();
        assert_eq!(rules_but_ours(), before, "not a rule more or less");
    });
}

fn rules_but_ours() -> Vec<String> {
    let is_rule = |line: &&str| line.starts_with("-A") && !line.contains("RDD-");
    rules().lines().filter(is_rule).map(str::to_owned).collect()
}

#[test]
fn nobody_reaches_into_a_network_from_outside_of_it() {
    if !room::enter("nobody_reaches_into_a_network_from_outside_of_it") {
        return;
    }
    let world = World::new();
    suite::run(async {
        let one = Tenant::new("2", 18080, "192.168.77.0/24").await;
        let other = Tenant::new("3", 18081, "192.168.78.0/24").await;
        let hidden = format!("{}:80", one.address());
        world.learn_the_way();
        assert!(container_reaches(&one.socket(), "bridge", &hidden), "within a network they see each other");
        assert!(fetch_from_here(&hidden).is_ok(), "and this host sees them");
        assert!(!container_reaches(&one.socket(), "some", &hidden), "another network of the same engine");
        assert!(!container_reaches(&one.socket(), "chosen", &hidden), "another network with addresses of its own");
        assert!(!container_reaches(&other.socket(), "bridge", &hidden), "another instance");
        assert!(!world.reaches(&hidden), "somebody on our network who knows the way");
        assert!(
            !container_reaches(&one.socket(), "inner", &format!("{THERE}:8000")),
            "an internal network has no way out"
        );
        let system = System::start(&[]);
        import_image_at(&system.socket());
        assert!(!container_reaches(&system.socket(), "bridge", &hidden), "a system's engine");
        one.check(&world, "and yet what is published answers");
        let addresses: Vec<Ipv4Addr> = [&one, &other].iter().map(|tenant| tenant.address().parse().unwrap()).collect();
        assert_ne!(addresses[0].octets()[..3], addresses[1].octets()[..3], "each has its own addresses");
    });
}

#[test]
fn rules_that_somebody_removed_are_put_back() {
    if !room::enter("rules_that_somebody_removed_are_put_back") {
        return;
    }
    let world = World::new();
    suite::run(async {
        let tenant = Tenant::new("2", 18080, "192.168.77.0/24").await;
        for table in ["nat", "mangle", "filter"] {
            run("iptables", &["-t", table, "-F"]);
        }
        run("iptables", &["-P", "FORWARD", "DROP"]);
        // What would be noticed within a minute is noticed at once when a container joins a network.
        eventually("the rules", SOON, || {
            container_reaches(&tenant.socket(), "some", &format!("{THERE}:8000")).then_some(())
        });
        tenant.check(&world, "put back");
    });
}
