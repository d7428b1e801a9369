//! Tests of `rdd yq` around the language: the choice of the yq, the command line, the files.

use std::{fs, os::unix::fs::PermissionsExt};

use super::*;
use crate::testing::{Ran, User};

fn user() -> User {
    let mut user = User::new();
    user.variables.push(("PATH", "/nonexistent".to_owned()));
    user
}

fn yq(user: &User, words: &[&str]) -> Ran {
    let argv = ["rdd", "yq"].iter().chain(words).map(OsString::from).collect();
    user.run_argv(argv, &|_| Ok(()))
}

// Finding E-9: without a yq on PATH, `rdd yq` failed.
#[test]
fn without_a_yq_on_the_path_the_built_in_one_answers() {
    let mut user = user();
    user.input = "a:\n  b: [1, x]\n";
    let ran = yq(&user, &[".a.b[1]"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "x\n", ""));
    assert_eq!(yq(&user, &["-o", "json", "-I0", "."]).stdout, "{\"a\":{\"b\":[1,\"x\"]}}\n");
    assert_eq!(yq(&user, &["eval", "-oj", "-I=0", ".a.b", "-"]).stdout, "[1,\"x\"]\n");
    let named = user.run_argv(vec!["/x/yq.rdd".into(), ".a.b[0]".into()], &|_| Ok(()));
    assert_eq!(named.stdout, "1\n", "as a link of that name");
    let version = yq(&user, &["--version"]).stdout;
    assert!(version.starts_with("yq (https://github.com/mikefarah/yq/) version v4."), "{version}");
    assert!(version.contains("rdd v1.2.3"), "{version}");
    assert!(yq(&user, &["--help"]).stdout.contains("Differences from the original yq"));
}

// Finding E-9: another copy of this program would search for a yq again, without end.
#[test]
fn a_yq_on_the_path_is_run_once_and_never_ourselves() {
    let mut user = user();
    let folder = user.home.path().join("bin");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink("/proc/self/exe", folder.join("yq")).unwrap();
    user.executable = std::env::current_exe().unwrap();
    user.variables.push(("PATH", folder.to_str().unwrap().to_owned()));
    assert_eq!(yq(&user, &["-n", "1 + 1"]).stdout, "2\n", "a link to this program is passed over");

    fs::remove_file(folder.join("yq")).unwrap();
    fs::write(folder.join("yq"), "#!/bin/sh\nexit 9\n").unwrap();
    fs::set_permissions(folder.join("yq"), fs::Permissions::from_mode(0o755)).unwrap();
    user.variables.push(("RDD_YQ", "builtin".to_owned()));
    assert_eq!(yq(&user, &["-n", "1 + 1"]).stdout, "2\n", "one that was run by us looks no further");
}

// Finding E-9.
#[test]
fn errors_begin_as_those_of_yq_and_end_with_one() {
    let user = user();
    for (words, error) in [
        (&["-n", "foo(.a)"][..], "Error: 1:1: invalid input text \"foo\"\n"),
        (&["-n", ".a["], "Error: invalid input: bad expression, it ends where a value is expected\n"),
        (&["-n", "1 +"], "Error: invalid input: bad expression, it ends where a value is expected\n"),
        (&["-n", "(.a"], "Error: invalid input: bad expression, could not find matching `)`\n"),
        (&["-n", "{"], "Error: invalid input: bad expression, it ends where a value is expected\n"),
        (&["-n", ".a)"], "Error: invalid input: bad expression, got close brackets without matching opening bracket\n"),
        (&["-n", "-e", "null"], "Error: no matches found\n"),
        (&["-n", ".", "/etc/hostname"], "Error: cannot pass files in when using null-input flag\n"),
        (
            &["-i", ".a = 1"],
            "Error: write in place flag only applicable when giving an expression and at least one file\n",
        ),
        (&[".", "/nonexistent/x.yaml"], "Error: open /nonexistent/x.yaml: no such file or directory\n"),
        (&["--nope"], "Error: unknown flag: --nope\n"),
        (&["-n", "-o", "toml", "."], "Error: unknown format 'toml' please use [auto|yaml|json|props] for output\n"),
        (&["-n", "load(\"x\")"], "Error: 'load' is not supported by the yq in rdd; install yq v4 for it\n"),
    ] {
        let ran = yq(&user, words);
        assert_eq!((ran.code, ran.stderr.as_str()), (1, error), "{words:?}");
    }
}

// Finding E-9: comments would be lost without notice.
#[test]
fn in_place_changes_a_file_and_refuses_one_that_would_lose_something() {
    let user = user();
    let path = user.home.path().join("a.yaml");
    let link = user.home.path().join("link.yaml");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (path, link) = (path.to_str().unwrap(), link.to_str().unwrap());
    fs::write(path, "b: 1\na: \"x\"\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
    let ran = yq(&user, &["-i", ".c = 3 | .b += 1", link]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
    assert_eq!(fs::read_to_string(path).unwrap(), "b: 2\na: \"x\"\nc: 3\n");
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(link).unwrap().is_symlink());

    for (text, lost) in [("a: 1 # why\n", "comments"), ("a: &x 1\nb: *x\n", "anchors")] {
        fs::write(path, text).unwrap();
        let ran = yq(&user, &["-i", ".a = 2", path]);
        assert_eq!(ran.code, 1);
        assert!(
            ran.stderr.starts_with(&format!("Error: {path} has {lost}, which the built-in yq would lose")),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("Install yq v4"), "{}", ran.stderr);
        assert_eq!(fs::read_to_string(path).unwrap(), text, "nothing was changed");
    }
    fs::write(path, "a: 1\n").unwrap();
    assert_eq!(yq(&user, &["-i", ".a |= error(\"no\")", path]).code, 1);
    assert_eq!(fs::read_to_string(path).unwrap(), "a: 1\n", "a failure changes nothing");
}

#[test]
fn the_first_word_is_the_expression_unless_it_is_a_file() {
    let user = user();
    let path = user.home.path().join("a.json");
    fs::write(&path, "{\"b\": 1, \"a\": 2}").unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(yq(&user, &[path]).stdout, "{\n  \"b\": 1,\n  \"a\": 2\n}\n");
    assert_eq!(yq(&user, &["-oy", ".", path]).stdout, "b: 1\na: 2\n");
    assert_eq!(yq(&user, &["--expression", ".a", path]).stdout, "2\n");
    assert_eq!(yq(&user, &["ea", "[.]", "-oj", "-I0", path, path]).stdout, "[{\"b\":1,\"a\":2},{\"b\":1,\"a\":2}]\n");
}
