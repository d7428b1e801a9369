//! Tests of descent and instances with real processes, and of parsing stat lines.

use std::process::Child;

use rdd_stdx::process::background;

use super::*;

fn sleeper(instance: &str, home: &Path) -> Child {
    let mut command = background("sleep", Path::new("/"));
    command.arg("600").env_clear().env("RDD_INSTANCE", instance).env("HOME", home).env("TOKEN", "hunter2");
    command.spawn().unwrap()
}

fn pids(processes: &[Info]) -> Vec<u32> {
    processes.iter().map(|process| process.pid).collect()
}

// Finding 295-S9
#[test]
fn the_instance_bats_never_matches_bats_app_nor_anybody_elses_bats() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let longer = PathBuf::from(format!("{}-more", root.path().display()));
    let mut mine = sleeper("bats", &root.path().join("bats"));
    let mut others = [
        sleeper("bats-app", &root.path().join("bats-app")),
        sleeper("bat", &root.path().join("bat")),
        sleeper("bats", elsewhere.path()),
        sleeper("bats", &longer),
    ];
    let owned = Owned { instance: "bats".to_owned(), root: root.path().to_owned() };
    let found = Table::read().unwrap().of(&owned);
    assert_eq!(pids(&found), [mine.id()]);
    assert!(end(&found, Duration::from_secs(5)).is_empty());
    assert!(mine.wait().unwrap().code().is_none(), "a signal ended it");
    for other in &mut others {
        assert!(other.try_wait().unwrap().is_none(), "somebody else's process lives");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

#[test]
fn descendants_are_found_over_generations_and_siblings_are_not() {
    let mut shell = background("/bin/sh", Path::new("/"));
    let mut shell = shell.args(["-c", "sh -c 'sleep 601 & wait' & wait"]).spawn().unwrap();
    let mut sibling = sleeper("none", Path::new("/"));
    let family = crate::eventually("three generations", Duration::from_secs(10), || {
        let family = Table::read().unwrap().descendants_of(shell.id());
        if family.len() == 2 && family.iter().any(|p| p.arguments == ["sleep", "601"]) {
            Ok(family)
        } else {
            Err(format!("{family:?}"))
        }
    });
    assert!(!pids(&family).contains(&sibling.id()));
    assert!(end(&family, Duration::ZERO).is_empty());
    shell.wait().unwrap();
    sibling.kill().unwrap();
    sibling.wait().unwrap();
}

#[test]
fn a_process_that_ignores_the_polite_signal_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("deaf");
    let mut shell = background("/bin/sh", Path::new("/"));
    shell.args(["-c", "trap '' TERM; : > $MARK; while :; do sleep 0.05; done"]).env("MARK", &mark);
    let mut shell = shell.spawn().unwrap();
    crate::eventually("the shell to be deaf", Duration::from_secs(10), || mark.exists().then_some(()));
    let seen = look_at(shell.id()).unwrap();
    assert!(end(&[seen], Duration::from_millis(100)).is_empty());
    shell.wait().unwrap();
}

#[test]
fn a_pid_that_was_given_away_is_not_signalled() {
    let mut child = sleeper("none", Path::new("/"));
    let mut seen = look_at(child.id()).unwrap();
    seen.started += 1;
    end(&[seen], Duration::ZERO);
    assert!(child.try_wait().unwrap().is_none(), "another process has this PID now: it lives");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_zombie_is_known_as_one_and_values_of_variables_stay_private() {
    let mut child = sleeper("none", Path::new("/"));
    let alive = look_at(child.id()).unwrap();
    assert_eq!(alive.variable_names(), ["HOME", "RDD_INSTANCE", "TOKEN"]);
    assert!(!format!("{alive:?} {alive}").contains("hunter2"));
    child.kill().unwrap();
    crate::eventually("a zombie", Duration::from_secs(10), || look_at(child.id()).unwrap().is_zombie().then_some(()));
    child.wait().unwrap();
}

#[test]
fn a_name_with_parentheses_and_spaces_is_one_name() {
    let stat = parse_stat("12 (a) b) S 3 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 9 10");
    let expected = Stat { name: "a) b".to_owned(), state: 'S', parent: 3, is_kernel: false, started: 777 };
    assert_eq!(stat, Some(expected));
    assert!(parse_stat("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0").unwrap().is_kernel);
    assert_eq!(parse_stat("12 (short) S 3"), None);
}

#[test]
fn a_process_is_known_by_its_environment_as_soon_as_it_was_spawned() {
    for _ in 0..50 {
        let mut child = sleeper("at-once", Path::new("/"));
        assert_eq!(look_at(child.id()).unwrap().instance().as_deref(), Some("at-once"));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn homes_under_the_root_name_the_instances_the_tests_own() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("t1-2")).unwrap();
    fs::write(root.path().join("a-file"), "").unwrap();
    let names: Vec<String> = owned_instances(root.path()).into_iter().map(|owned| owned.instance).collect();
    assert_eq!(names, ["t1-2"]);
    assert!(owned_instances(&root.path().join("missing")).is_empty());
}
