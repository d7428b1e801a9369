//! Tests of when the user's current context is switched and when it is kept; each reason has its row.

use std::{fs, os::unix::net::UnixListener, path::Path};

use super::*;

struct Case {
    home: tempfile::TempDir,
    context: DockerContext,
}

impl Case {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut DockerCli)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut cli = DockerCli {
            folder: home.path().join(".docker"),
            context: "rancher-desktop-2".to_owned(),
            host: "unix:///h/.rd2/docker.sock".to_owned(),
            default_host: format!("unix://{}", home.path().join("default.sock").display()),
            overridden_by: None,
        };
        change(&mut cli);
        Self { context: DockerContext::new(cli), home }
    }

    fn folder(&self) -> &Path {
        &self.context.cli.folder
    }

    fn write(&self, text: &str) {
        fs::create_dir_all(self.folder()).unwrap();
        fs::write(self.context.config_file(), text).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.context.config_file()).unwrap_or_default()
    }

    /// Publishes a context of the user and makes it current.
    fn named(&self, name: &str, host: &str) {
        store::publish(self.folder(), name, host).unwrap();
        self.write(&format!("{{\"currentContext\":\"{name}\"}}"));
    }

    async fn choose(&self) -> Choice {
        self.context.choose(&CancellationToken::new()).await
    }

    /// Asserts that the current context is kept and the file stays unchanged.
    async fn is_kept(&self) {
        let before = self.text();
        assert_eq!(self.choose().await, Choice::Kept);
        assert_eq!(self.text(), before);
    }
}

#[tokio::test]
async fn the_default_is_left_for_ours_when_nobody_listens_there() {
    for text in [None, Some("{}"), Some("{\"currentContext\":\"\"}"), Some("{\"currentContext\":\"default\"}")] {
        let case = Case::new();
        if let Some(text) = text {
            case.write(text);
        }
        assert_eq!(case.choose().await, Choice::Switched, "{text:?}");
        assert!(case.text().contains("\"rancher-desktop-2\""), "{text:?}: {}", case.text());
        assert_eq!(case.choose().await, Choice::Ours);
    }
}

#[tokio::test]
async fn a_context_that_is_not_there_or_that_nobody_answers_for_is_left() {
    let case = Case::new();
    case.write("{\"currentContext\":\"gone\"}");
    assert_eq!(case.choose().await, Choice::Switched);
    let case = Case::new();
    case.named("dead", &format!("unix://{}", case.home.path().join("dead.sock").display()));
    assert_eq!(case.choose().await, Choice::Switched);
}

#[tokio::test]
async fn an_engine_that_answers_is_kept() {
    let case = Case::new();
    let listener = UnixListener::bind(case.home.path().join("default.sock")).unwrap();
    let engine = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 256]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    });
    case.is_kept().await;
    engine.join().unwrap();
}

#[tokio::test]
async fn a_variable_that_says_where_docker_goes_keeps_it() {
    for variable in ["DOCKER_HOST", "DOCKER_CONTEXT"] {
        Case::with(|cli| cli.overridden_by = Some(variable)).is_kept().await;
    }
}

#[tokio::test]
async fn settings_that_cannot_be_understood_keep_it() {
    for text in
        ["{", "[]", "\u{feff}{}", "{\"currentContext\":1}", "{\"currentContext\":\"x\",\"currentContext\":\"y\"}"]
    {
        let case = Case::new();
        case.write(text);
        case.is_kept().await;
    }
}

#[tokio::test]
async fn a_context_that_we_cannot_judge_is_kept() {
    for host in ["ssh://me@far", "npipe:////./pipe/x", "tcp://no-port", "http://127.0.0.1:1"] {
        let case = Case::new();
        case.named("theirs", host);
        case.is_kept().await;
    }
    let case = Case::new();
    case.named("theirs", "unix:///x");
    fs::write(store::file(case.folder(), "theirs"), "{").unwrap();
    case.is_kept().await;
}

#[tokio::test]
async fn a_socket_that_takes_no_answer_or_gives_none_keeps_it() {
    let case = Case::new();
    let listener = UnixListener::bind(case.home.path().join("default.sock")).unwrap();
    let engine = std::thread::spawn(move || drop(listener.accept().unwrap()));
    case.is_kept().await;
    engine.join().unwrap();
}

#[tokio::test]
async fn a_read_only_file_keeps_it() {
    use std::os::unix::fs::PermissionsExt;
    let case = Case::new();
    case.write("{\"currentContext\":\"gone\"}");
    fs::set_permissions(case.context.config_file(), fs::Permissions::from_mode(0o400)).unwrap();
    case.is_kept().await;
}

// The switch runs in a background task, which needs a thread while this one waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_there_after_a_start_is_gone_after_the_end() {
    let case = Case::new();
    assert!(!case.context.is_published());
    case.context.ensure().await.unwrap();
    case.context.ensure().await.unwrap();
    assert!(case.context.is_published());
    rdd_testkit::eventually("the switch", std::time::Duration::from_secs(10), || {
        if case.text().contains("rancher-desktop-2") { Ok(()) } else { Err(case.text()) }
    });
    case.context.remove().await.unwrap();
    assert!(!case.folder().exists(), "nothing is left");
    case.context.remove().await.unwrap();
}

// Finding O-6
#[tokio::test]
async fn what_a_killed_daemon_left_is_found_and_removed_by_the_next() {
    let case = Case::new();
    case.write("{\n\t\"auths\": {}\n}");
    store::publish(case.folder(), "rancher-desktop-2", "unix:///old").unwrap();
    assert_eq!(case.choose().await, Choice::Switched);
    let next = DockerContext::new((*case.context.cli).clone());
    assert!(next.is_published());
    next.remove().await.unwrap();
    assert!(!next.is_published());
    assert_eq!(case.text(), "{\n\t\"auths\": {}\n}");
}

#[tokio::test]
async fn the_end_keeps_a_context_that_the_user_chose_meanwhile() {
    let case = Case::new();
    store::publish(case.folder(), "rancher-desktop-2", "unix:///old").unwrap();
    case.named("theirs", "unix:///x");
    case.context.remove().await.unwrap();
    assert_eq!(case.text(), "{\"currentContext\":\"theirs\"}");
    assert_eq!(store::read(case.folder(), "theirs"), Named::Host("unix:///x".to_owned()));
}

// Finding 295-S9
#[tokio::test]
async fn clearing_up_for_one_instance_leaves_one_whose_name_only_begins_alike() {
    let case = Case::with(|cli| cli.context = "rancher-desktop-bats".to_owned());
    let mut other = (*case.context.cli).clone();
    other.context = "rancher-desktop-bats-app".to_owned();
    let other = DockerContext::new(other);
    case.context.publish().unwrap();
    other.publish().unwrap();
    case.write("{\"currentContext\":\"rancher-desktop-bats-app\"}");
    case.context.remove().await.unwrap();
    assert!(!case.context.is_published() && other.is_published());
    assert_eq!(case.text(), "{\"currentContext\":\"rancher-desktop-bats-app\"}");
    other.remove().await.unwrap();
    assert_eq!(case.text(), "{}");
}

#[tokio::test(start_paused = true)]
async fn a_removal_does_not_wait_for_an_engine_that_says_nothing_and_nothing_is_written_after_it() {
    let case = Case::new();
    let _listener = UnixListener::bind(case.home.path().join("default.sock")).unwrap();
    case.context.ensure().await.unwrap();
    let began = tokio::time::Instant::now();
    case.context.remove().await.unwrap();
    assert!(began.elapsed() < probe::TAKES);
    assert!(!case.folder().exists());
}

#[tokio::test]
async fn a_folder_that_depends_on_where_one_stands_is_left_alone() {
    let case = Case::with(|cli| cli.folder = "somewhere".into());
    assert!(matches!(case.context.ensure().await, Err(Error::RelativeFolder(_))));
    case.context.remove().await.unwrap();
    assert!(!Path::new("somewhere").exists());
}

// Finding 295-S4
#[tokio::test]
async fn a_context_that_cannot_be_written_says_so() {
    let case = Case::new();
    fs::write(case.folder(), "a file where the folder should be").unwrap();
    let error = case.context.ensure().await.unwrap_err();
    assert!(error.to_string().contains("rancher-desktop-2"), "{error}");
    // The first failure is reported, not the ones that follow from it.
    assert!(Chain(&error).to_string().contains("create folder"), "{}", Chain(&error));
}

// Finding A-1
#[tokio::test]
async fn a_folder_of_another_user_is_refused_with_its_owner_and_the_fix_and_stays_as_it_is() {
    if !rdd_testkit::capability::require("root") {
        return;
    }
    /// The user `nobody`.
    const STRANGER: u32 = 65_534;
    for theirs in ["", "contexts", "contexts/meta"] {
        let case = Case::new();
        case.write("{\"currentContext\":\"rancher-desktop-2\"}");
        let folder = case.folder().join(theirs).components().collect::<std::path::PathBuf>();
        fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::chown(&folder, Some(STRANGER), None).unwrap();
        let error = case.context.ensure().await.unwrap_err();
        let text = Chain(&error).to_string();
        let refusal = format!("refusing to use {}: it belongs to user ", folder.display());
        assert!(text.contains(&refusal) && text.contains("(uid 65534), and rdd runs as root"), "{theirs}: {text}");
        assert!(text.ends_with("or set HOME to a folder of root's"), "{theirs}: {text}");
        case.is_kept().await;
        case.context.remove().await.unwrap();
        assert_eq!(case.text(), "{\"currentContext\":\"rancher-desktop-2\"}", "{theirs}");
        assert!(!case.context.is_published(), "{theirs}");
    }
}

fn docker(folder: &Path, words: &[&str]) -> String {
    let mut command = rdd_stdx::process::background("docker", Path::new("/"));
    command.arg("--config").arg(folder).args(words).env_remove("DOCKER_HOST").env_remove("DOCKER_CONTEXT");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_docker_command_reads_what_we_wrote_and_both_write_at_the_same_time() {
    if !rdd_testkit::capability::require("docker") {
        return;
    }
    let case = Case::new();
    case.write("{\n\t\"detachKeys\": \"ctrl-x\"\n}");
    case.context.publish().unwrap();
    assert!(docker(case.folder(), &["context", "ls", "--format", "{{.Name}}"]).contains("rancher-desktop-2"));
    let host =
        docker(case.folder(), &["context", "inspect", "rancher-desktop-2", "--format", "{{.Endpoints.docker.Host}}"]);
    assert_eq!(host, "unix:///h/.rd2/docker.sock");
    let folder = case.folder().to_owned();
    let theirs = std::thread::spawn(move || {
        for round in 0..10 {
            let name = format!("theirs-{round}");
            docker(&folder, &["context", "create", &name, "--docker", "host=tcp://127.0.0.1:1"]);
            docker(&folder, &["context", "use", &name]);
            docker(&folder, &["context", "use", "rancher-desktop-2"]);
            docker(&folder, &["context", "use", "default"]);
        }
    });
    while !theirs.is_finished() {
        for (from, to) in [("", Some("rancher-desktop-2")), ("rancher-desktop-2", None)] {
            match config::switch(&case.context.config_file(), from, to) {
                Ok(_) | Err(Doubt::Busy(_)) => {}
                Err(doubt) => panic!("{doubt:?}"),
            }
        }
    }
    theirs.join().unwrap();
    assert!(case.text().contains("\"detachKeys\": \"ctrl-x\""), "{}", case.text());
    docker(case.folder(), &["context", "use", "rancher-desktop-2"]);
    assert_eq!(docker(case.folder(), &["context", "show"]), "rancher-desktop-2");
    case.context.remove_now().unwrap();
    assert_eq!(docker(case.folder(), &["context", "show"]), "default");
    let left = docker(case.folder(), &["context", "ls", "--format", "{{.Name}}"]);
    assert_eq!((left.lines().count(), left.contains("rancher-desktop-2")), (11, false), "{left}");
}
