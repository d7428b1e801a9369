//! Tests of which file is written, and how.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink},
    path::Path,
    time::Duration,
};

use rdd_kubeconfig::{Error, Outcome};
use rdd_stdx::{
    chain::Chain,
    clock::{ManualClock, SystemClock},
};

use crate::support::{Folder, NAME, cluster, merge, read, user, written};

const WORK: &str = "# work\nclusters:\n- {name: work, cluster: {server: 'https://work'}}\ncontexts: []\nusers: []\ncurrent-context: work\n";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn moment(path: &Path) -> (u64, i64, i64) {
    let meta = fs::metadata(path).unwrap();
    (meta.ino(), meta.mtime(), meta.mtime_nsec())
}

#[tokio::test]
async fn a_new_file_is_private_and_so_is_its_folder() {
    let folder = Folder::new();
    let path = folder.path("home/.kube/config");
    let merge = merge(&[&path]);
    assert_eq!(merge.publish(&cluster(1), &user()).await.unwrap(), written(&[&path]));
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no lock and no staging file is left");
}

#[tokio::test]
async fn what_is_published_already_is_not_written_again() {
    let folder = Folder::new();
    let path = folder.write("config", WORK);
    let merge = merge(&[&path]);
    assert_eq!(merge.publish(&cluster(1), &user()).await.unwrap(), written(&[&path]));
    let before = moment(&path);
    let folder_before = moment(path.parent().unwrap());
    assert_eq!(merge.publish(&cluster(1), &user()).await.unwrap(), Outcome::Unchanged);
    assert_eq!((moment(&path), moment(path.parent().unwrap())), (before, folder_before));
    assert_eq!(merge.withdraw().await.unwrap(), written(&[&path]));
    assert_eq!(read(&path), WORK);
}

// Finding O-7
#[tokio::test]
async fn where_nothing_is_ours_nothing_is_touched_nor_made() {
    let folder = Folder::new();
    let (there, absent) = (folder.write("config", WORK), folder.path("home/.kube/config"));
    let malformed = folder.write("malformed", "a: [\n");
    let before = (moment(&there), moment(folder.path("").as_path()));
    let merge = merge(&[&there, &absent, &malformed, Path::new("/dev/null")]);
    assert_eq!(merge.withdraw().await.unwrap(), Outcome::Unchanged);
    assert_eq!((moment(&there), moment(folder.path("").as_path())), before);
    assert_eq!(folder.names(), ["config", "malformed"]);
}

#[tokio::test]
async fn withdrawing_clears_the_current_context_only_if_it_is_ours() {
    let folder = Folder::new();
    for (current, after) in [("work", "work"), (NAME, "\"\"")] {
        let path =
            folder.write("config", &WORK.replace("current-context: work", &format!("current-context: {current}")));
        let merge = merge(&[&path]);
        merge.publish(&cluster(1), &user()).await.unwrap();
        merge.withdraw().await.unwrap();
        assert_eq!(read(&path), WORK.replace("current-context: work", &format!("current-context: {after}")));
    }
}

#[tokio::test]
async fn of_several_files_each_entry_is_written_where_it_is_and_new_ones_into_the_first() {
    let folder = Folder::new();
    let (missing, first) = (folder.path("missing"), folder.write("first", "kind: Config\n"));
    let second = folder.write("second", "users:\n- name: rancher-desktop-2\n  user: {token: old}\n");
    let merge = merge(&[&missing, &first, &second]);
    assert_eq!(merge.publish(&cluster(1), &user()).await.unwrap(), written(&[&first, &second]));
    assert!(!missing.exists());
    assert_eq!(read(&second), "users:\n- name: rancher-desktop-2\n  user: {token: \"secret\"}\n");
    assert!(read(&first).contains("clusters:\n- cluster:") && !read(&first).contains("users:"));
    assert_eq!(merge.withdraw().await.unwrap(), written(&[&first, &second]));
    assert_eq!(read(&second), "users: []\n");
    assert_eq!(read(&first), "kind: Config\nclusters: []\ncontexts: []\n");
}

#[tokio::test]
async fn where_none_of_several_exists_the_last_is_made() {
    let folder = Folder::new();
    let (first, last) = (folder.path("first"), folder.path("last"));
    assert_eq!(merge(&[&first, &last]).publish(&cluster(1), &user()).await.unwrap(), written(&[&last]));
    assert_eq!(folder.names(), ["last"]);
}

#[tokio::test]
async fn a_link_stays_a_link_and_its_target_is_replaced() {
    let folder = Folder::new();
    let target = folder.write("dotfiles/kubeconfig", WORK);
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    let (link, chain, dangling) = (folder.path("config"), folder.path("chain"), folder.path("dangling"));
    symlink("dotfiles/kubeconfig", &link).unwrap();
    symlink(&link, &chain).unwrap();
    symlink("later/config", &dangling).unwrap();
    merge(&[&chain]).publish(&cluster(1), &user()).await.unwrap();
    assert!(fs::symlink_metadata(&chain).unwrap().is_symlink() && fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(read(&target).contains(NAME));
    assert_eq!(mode(&target), 0o640);
    merge(&[&dangling]).publish(&cluster(1), &user()).await.unwrap();
    assert!(fs::symlink_metadata(&dangling).unwrap().is_symlink());
    assert_eq!(mode(&folder.path("later/config")), 0o600);
    let looped = folder.path("looped");
    symlink("looped", &looped).unwrap();
    let error = merge(&[&looped]).publish(&cluster(1), &user()).await.unwrap_err();
    assert_eq!(Chain(&error).to_string(), format!("resolve {}: too many links", looped.display()));
    assert!(fs::symlink_metadata(&looped).unwrap().is_symlink());
}

// Finding A-11: kubectl locks the path that it was given, which may be the link or the file that it leads to.
#[tokio::test]
async fn the_lock_of_a_link_and_that_of_the_file_it_leads_to_are_both_honoured() {
    let folder = Folder::new();
    let (target, link) = (folder.write("real", WORK), folder.path("config"));
    symlink("real", &link).unwrap();
    for locked in ["real.lock", "config.lock"] {
        let lock = folder.write(locked, "");
        let merge = merge(&[&link]).with_patience(SystemClock::shared(), Duration::from_millis(50));
        let error = merge.publish(&cluster(1), &user()).await.unwrap_err();
        assert!(matches!(&error, Error::Locked { path } if *path == lock), "{locked}: {error}");
        assert_eq!(read(&target), WORK, "{locked}");
        fs::remove_file(&lock).unwrap();
        assert_eq!(merge.publish(&cluster(1), &user()).await.unwrap(), written(&[&link]), "{locked}");
        merge.withdraw().await.unwrap();
        assert_eq!((read(&target).as_str(), folder.names().len()), (WORK, 2), "no lock is left");
    }
}

// Finding A-1
#[tokio::test]
async fn a_kubeconfig_of_another_user_is_neither_read_nor_written() {
    if !rdd_testkit::capability::require("root") {
        return;
    }
    const STRANGER: u32 = 4_242;
    let folder = Folder::new();
    let (path, link) = (folder.write("theirs/config", WORK), folder.path("link"));
    symlink(&path, &link).unwrap();
    let planted = folder.write("planted", WORK);
    let their_link = folder.path("their-link");
    symlink(&planted, &their_link).unwrap();
    let new = folder.path("theirs/new");
    chown(&path, Some(STRANGER), None).unwrap();
    chown(path.parent().unwrap(), Some(STRANGER), None).unwrap();
    lchown(&their_link, Some(STRANGER), None).unwrap();
    let mut before = folder.names();
    before.sort();
    for path in [&path, &link, &their_link, &new] {
        let merge = merge(&[path]);
        let error = merge.publish(&cluster(1), &user()).await.unwrap_err();
        let said = Chain(&error).to_string();
        assert!(said.contains("refusing to use ") && said.contains("it belongs to user uid 4242"), "{said}");
        assert!(said.ends_with("run rdd as 4242, or set HOME to a folder of root's"), "{said}");
    }
    assert_eq!((read(&path).as_str(), read(&planted).as_str(), folder.names()), (WORK, WORK, before));
    assert!(!new.exists());
}

#[tokio::test]
async fn a_read_only_file_is_left_alone_and_the_message_says_what_to_do() {
    let folder = Folder::new();
    let path = folder.write("config", WORK);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    let error = merge(&[&path]).publish(&cluster(1), &user()).await.unwrap_err();
    let said = format!("the kubeconfig {} is read-only (to have contexts put into it: chmod u+w)", path.display());
    assert_eq!(error.to_string(), said);
    assert_eq!((read(&path).as_str(), folder.names().len()), (WORK, 1));
}

#[tokio::test]
async fn a_folder_that_takes_no_file_is_a_clear_error() {
    let path = Path::new("/sys/kubeconfig");
    let error = merge(&[path]).publish(&cluster(1), &user()).await.unwrap_err();
    assert!(matches!(error, Error::Write { .. }), "{error:?}");
    assert!(Chain(&error).to_string().starts_with("write the kubeconfig /sys/kubeconfig: "), "{}", Chain(&error));
}

#[tokio::test]
async fn what_cannot_be_changed_with_certainty_is_left_alone_and_named_with_its_line() {
    let folder = Folder::new();
    for (text, said) in [
        ("a: 1\n---\nb: 2\n", "line 2: a second document begins"),
        ("clusters: []\nclusters: []\n", "line 2: the key \"clusters\" is there twice"),
    ] {
        let path = folder.write("config", text);
        let error = merge(&[&path]).publish(&cluster(1), &user()).await.unwrap_err();
        let file = format!("the kubeconfig {} was left alone, for it cannot be changed with certainty", path.display());
        assert_eq!(Chain(&error).to_string(), format!("{file}: {said}"));
        assert_eq!(read(&path), text);
    }
    let path = folder.path("binary");
    fs::write(&path, b"a: 1\nb: \xff\n").unwrap();
    let error = merge(&[&path]).publish(&cluster(1), &user()).await.unwrap_err();
    assert!(Chain(&error).to_string().ends_with("line 2: it is not UTF-8"));
    assert_eq!(folder.names(), ["binary", "config"]);
}

#[tokio::test]
async fn what_is_no_regular_file_is_never_replaced() {
    let folder = Folder::new();
    let error =
        merge(&[Path::new("/dev/null"), folder.path("").as_path()]).publish(&cluster(1), &user()).await.unwrap_err();
    assert!(matches!(error, Error::Nowhere), "{error:?}");
    let path = folder.path("config");
    merge(&[Path::new("/dev/null"), &path]).publish(&cluster(1), &user()).await.unwrap();
    assert!(path.exists());
}

#[test]
fn a_lock_of_kubectl_is_waited_for_and_honoured() {
    let folder = Folder::new();
    let path = folder.write("config", WORK);
    let lock = folder.write("config.lock", "");
    let ours = merge(&[&path]).with_patience(SystemClock::shared(), Duration::from_millis(50));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(ours.publish(&cluster(1), &user())).unwrap_err();
    assert!(error.to_string().starts_with(&format!("the lock {} is held", lock.display())), "{error}");
    assert_eq!((read(&path).as_str(), folder.names()), (WORK, vec!["config".to_owned(), "config.lock".to_owned()]));
    let patient = merge(&[&path]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rdd_testkit::eventually("the new text is there and waits for the lock", Duration::from_secs(4), || {
                folder.names().into_iter().find(|name| name.ends_with(".tmp"))
            });
            fs::remove_file(&lock).unwrap();
        });
        runtime.block_on(patient.publish(&cluster(1), &user())).unwrap();
    });
    assert!(read(&path).contains(NAME));
    assert_eq!(folder.names(), ["config"]);
}

#[tokio::test]
async fn a_lock_that_was_left_behind_is_removed_and_a_fresh_one_is_not() {
    let folder = Folder::new();
    let path = folder.write("config", WORK);
    let lock = folder.write("config.lock", "");
    let made = Duration::from_secs(fs::metadata(&lock).unwrap().mtime().unsigned_abs());
    let clock = ManualClock::shared(made + Duration::from_secs(20));
    let ours = merge(&[&path]).with_patience(clock.clone(), Duration::from_millis(100));
    assert!(matches!(ours.publish(&cluster(1), &user()).await, Err(Error::Locked { .. })));
    clock.jump_to(made + Duration::from_secs(31));
    assert_eq!(ours.publish(&cluster(1), &user()).await.unwrap(), written(&[&path]));
    assert_eq!(folder.names(), ["config"]);
}

#[tokio::test]
async fn a_lock_of_ours_whose_maker_was_killed_is_removed_at_once_even_where_nothing_is_to_be_written() {
    let folder = Folder::new();
    let path = folder.write("config", WORK);
    let ours = merge(&[&path]).with_patience(SystemClock::shared(), Duration::from_millis(500));
    let abandon = || folder.write("config.lock", "rdd\n");
    abandon();
    assert_eq!(ours.publish(&cluster(1), &user()).await.unwrap(), written(&[&path]));
    abandon();
    assert_eq!(ours.publish(&cluster(1), &user()).await.unwrap(), Outcome::Unchanged);
    assert_eq!(folder.names(), ["config"]);
    let living = fs::File::open(abandon()).unwrap();
    living.try_lock().unwrap();
    assert!(matches!(ours.publish(&cluster(2), &user()).await, Err(Error::Locked { .. })));
    assert_eq!(ours.publish(&cluster(1), &user()).await.unwrap(), Outcome::Unchanged);
    assert_eq!(folder.names(), ["config", "config.lock"]);
}

#[tokio::test]
async fn what_a_killed_writer_left_is_removed_by_the_next() {
    let folder = Folder::new();
    let path = folder.write("config", WORK);
    folder.write(".config.rdd-4194304999-0.tmp", "secret");
    let living = format!(".config.rdd-{}-99999.tmp", std::process::id());
    folder.write(&living, "secret");
    merge(&[&path]).publish(&cluster(1), &user()).await.unwrap();
    assert_eq!(folder.names(), [living.as_str(), "config"]);
}

#[tokio::test]
async fn two_instances_have_their_entries_side_by_side() {
    let folder = Folder::new();
    let path = folder.write("config", WORK);
    let other = rdd_kubeconfig::Merge::new(vec![path.clone()], "rancher-desktop-bats");
    merge(&[&path]).publish(&cluster(1), &user()).await.unwrap();
    let alone = read(&path);
    other.publish(&cluster(2), &user()).await.unwrap();
    other.withdraw().await.unwrap();
    assert_eq!(read(&path), alone);
}
