//! Tests of edits to users' `config.json` files: odd ones, and with concurrent writers.

use std::{os::unix::fs::symlink, sync::Arc};

use super::*;

const SOON: std::time::Duration = std::time::Duration::from_secs(10);

struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    fn with(text: &str) -> Self {
        let case = Self::empty();
        fs::write(case.path(), text).unwrap();
        case
    }

    fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("config.json")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Asserts that the file is refused for this reason and stays unchanged.
    #[track_caller]
    fn is_left_alone(&self, why: &str) {
        let before = fs::read(self.path()).unwrap();
        for to in [Some("ours"), None] {
            let current = Config::read(&self.path()).and_then(|config| config.current()).unwrap_or_default();
            let doubt = switch(&self.path(), &current, to).unwrap_err();
            assert!(rdd_stdx::chain::Chain(&doubt).to_string().contains(why), "{doubt:?}");
        }
        assert_eq!(fs::read(self.path()).unwrap(), before);
        assert_eq!(self.names(), ["config.json"]);
    }
}

#[test]
fn a_value_is_set_and_cleared_and_every_other_byte_stays() {
    for text in [
        "{}",
        "{\n\t\"auths\": {},\n\t\"credsStore\": \"desktop\"\n}",
        "{\r\n    \"unknown\": [1,  2],\r\n    \"unknown\": 3\r\n}\r\n",
        "  {\"HttpHeaders\" :{\"A\":\"\\u00e9\"}}",
    ] {
        let case = Case::with(text);
        assert!(switch(&case.path(), "", Some("ours")).unwrap());
        assert_eq!(Config::read(&case.path()).unwrap().current().unwrap(), "ours");
        assert!(switch(&case.path(), "ours", None).unwrap());
        assert_eq!(case.text(), text);
        assert_eq!(case.names(), ["config.json"], "nothing is left beside it");
    }
}

#[test]
fn only_the_value_changes_where_there_is_one() {
    let case = Case::with("{ \"currentContext\"\t: \"gone\" ,\"x\":1}");
    assert!(!switch(&case.path(), "", Some("ours")).unwrap(), "it is not the one that was looked at");
    assert!(switch(&case.path(), "gone", Some("ours")).unwrap());
    assert_eq!(case.text(), "{ \"currentContext\"\t: \"ours\" ,\"x\":1}");
    let case = Case::with("{\"currentContext\":null}");
    assert!(switch(&case.path(), "", Some("o\"urs")).unwrap());
    assert_eq!(case.text(), "{\"currentContext\":\"o\\\"urs\"}");
}

#[test]
fn a_file_of_our_own_goes_again_and_one_that_docker_wrote_stays() {
    let case = Case::empty();
    let path = case.folder.path().join("deep/config.json");
    assert!(switch(&path, "", Some("ours")).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\n\t\"currentContext\": \"ours\"\n}\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(switch(&path, "ours", None).unwrap());
    assert!(!path.exists());
    assert!(!switch(&path, "ours", None).unwrap(), "and nothing makes one to clear it");
    assert!(!path.exists());

    let case = Case::with("{\n\t\"currentContext\": \"ours\"\n}");
    assert!(switch(&case.path(), "ours", None).unwrap());
    assert_eq!(case.text(), "{\n\t\n}");
}

#[test]
fn a_file_that_is_right_is_not_written_again() {
    let case = Case::with("{\"currentContext\":\"ours\"}");
    let before = fs::metadata(case.path()).unwrap();
    assert!(switch(&case.path(), "ours", Some("ours")).unwrap());
    use std::os::unix::fs::MetadataExt;
    assert_eq!(fs::metadata(case.path()).unwrap().ino(), before.ino());
}

#[test]
fn mode_and_links_stay_as_they_are() {
    let case = Case::empty();
    let real = case.folder.path().join("dotfiles");
    fs::create_dir(&real).unwrap();
    let real = real.join("docker.json");
    fs::write(&real, "{\"a\":1}").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&real, case.path()).unwrap();
    assert!(switch(&case.path(), "", Some("ours")).unwrap());
    assert_eq!(fs::read_link(case.path()).unwrap(), real);
    assert_eq!(fs::read_to_string(&real).unwrap(), "{\"a\":1,\"currentContext\":\"ours\"}");
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn what_cannot_be_understood_is_left_alone() {
    Case::with("{\"a\":1,}").is_left_alone("it is not JSON");
    Case::with("\u{feff}{\"a\":1}").is_left_alone("it is not JSON");
    Case::with("[]").is_left_alone("not an object");
    Case::with("{\"currentContext\":\"a\",\"currentContext\":\"a\"}").is_left_alone("more than once");
    Case::with("{\"currentContext\":\"a\",\"CurrentContext\":\"a\"}").is_left_alone("more than once");
    Case::with("{\"currentContext\":7}").is_left_alone("not a text");
}

#[test]
fn what_is_read_only_is_left_alone() {
    let case = Case::with("{\"currentContext\":\"gone\"}");
    fs::set_permissions(case.path(), fs::Permissions::from_mode(0o444)).unwrap();
    case.is_left_alone("is read-only");
}

#[test]
fn what_is_no_file_is_left_alone_and_hangs_nobody() {
    let case = Case::empty();
    fs::create_dir(case.path()).unwrap();
    assert!(matches!(switch(&case.path(), "", Some("ours")), Err(Doubt::Irregular { what: "not a file", .. })));
    let case = Case::empty();
    symlink(case.folder.path().join("nowhere"), case.path()).unwrap();
    assert!(matches!(switch(&case.path(), "", Some("ours")), Err(Doubt::Irregular { what: "a link to nothing", .. })));
    assert_eq!(case.names(), ["config.json"]);
    let case = Case::empty();
    rustix::fs::mkfifoat(rustix::fs::CWD, case.path(), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    assert!(matches!(switch(&case.path(), "", Some("ours")), Err(Doubt::Irregular { what: "not a file", .. })));
    let case = Case::empty();
    symlink(case.path(), case.path()).unwrap();
    assert!(matches!(switch(&case.path(), "", Some("ours")), Err(Doubt::Read { .. })), "a link to itself");
}

/// The user `nobody`.
const STRANGER: u32 = 65_534;

// Finding A-1
#[test]
fn what_is_planted_beside_the_file_is_neither_followed_nor_in_the_way_and_leftovers_are_removed() {
    for text in [None, Some("{\"a\":1}")] {
        let case = text.map_or_else(Case::empty, Case::with);
        let outside = tempfile::tempdir().unwrap();
        let victim = outside.path().join("victim");
        fs::write(&victim, "victim").unwrap();
        // The fixed staging name of earlier versions, and one of an interrupted write.
        let (planted, left) = (
            case.folder.path().join(".config.json.rdd.tmp"),
            case.folder.path().join(".config.json.0123456789abcdef.tmp"),
        );
        symlink(&victim, &planted).unwrap();
        symlink(&victim, &left).unwrap();
        assert!(switch(&case.path(), "", Some("ours")).unwrap());
        assert_eq!(case.names(), [".config.json.rdd.tmp", "config.json"], "{text:?}");
        assert!(switch(&case.path(), "ours", None).unwrap());
        assert_eq!(fs::read_to_string(case.path()).ok().as_deref(), text);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "victim");
        assert_eq!(fs::read_link(&planted).unwrap(), victim);
    }
}

// Finding A-1
#[test]
fn a_file_or_a_link_of_another_user_is_neither_read_nor_replaced() {
    if !rdd_testkit::capability::require("root") {
        return;
    }
    let case = Case::with("{\"a\":1}");
    std::os::unix::fs::chown(case.path(), Some(STRANGER), None).unwrap();
    case.is_left_alone("it belongs to user ");
    let case = Case::empty();
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim.json");
    fs::write(&victim, "{}").unwrap();
    symlink(&victim, case.path()).unwrap();
    std::os::unix::fs::lchown(case.path(), Some(STRANGER), None).unwrap();
    case.is_left_alone("it belongs to user ");
}

/// Saves like docker: a new file beside the old one, then a rename.
fn save(path: &Path, text: &str) {
    let staged = path.with_extension("theirs");
    fs::write(&staged, text).unwrap();
    fs::rename(&staged, path).unwrap();
}

#[test]
fn what_others_write_at_the_same_time_is_never_lost() {
    let case = Arc::new(Case::with("{\"count\":0}"));
    let rounds = 1000;
    let theirs = {
        let case = Arc::clone(&case);
        std::thread::spawn(move || {
            for count in 1..=rounds {
                save(&case.path(), &format!("{{\"count\":{count}}}"));
                // Our content may be visible for the moment until the exchange puts theirs back.
                rdd_testkit::eventually("what was written", SOON, || {
                    let text = case.text();
                    if text.contains(&format!("\"count\":{count}")) { Ok(()) } else { Err(text) }
                });
            }
        })
    };
    let mut switched = 0;
    while !theirs.is_finished() {
        match switch(&case.path(), "", Some("ours")) {
            Ok(true) => switched += 1,
            Ok(false) => drop(switch(&case.path(), "ours", None)),
            Err(Doubt::Busy(_)) => {}
            Err(doubt) => panic!("{doubt:?}"),
        }
    }
    theirs.join().unwrap();
    assert!(switched > 0);
    let _ = switch(&case.path(), "", Some("ours")).unwrap();
    assert!(case.text().contains(&format!("\"count\":{rounds}")), "{}", case.text());
    assert_eq!(case.names(), ["config.json"]);
}

#[test]
fn two_instances_never_undo_each_other() {
    let case = Arc::new(Case::with("{\"a\":1}"));
    let turns = |name: &'static str| {
        let case = Arc::clone(&case);
        std::thread::spawn(move || {
            (0..200)
                .filter(|_| {
                    let won = switch(&case.path(), "", Some(name)).unwrap();
                    if won {
                        assert!(switch(&case.path(), name, None).unwrap(), "{name} was cleared by the other");
                    }
                    won
                })
                .count()
        })
    };
    let (one, two) = (turns("one"), turns("two"));
    assert!(one.join().unwrap() + two.join().unwrap() > 0);
    assert_eq!((case.text().as_str(), case.names()), ("{\"a\":1}", vec!["config.json".to_owned()]));
}
