//! Tests of the check with templates that Lima accepts or refuses.

use super::{cases::IMAGES, *};

const CONTEXT: CheckContext =
    CheckContext { lima_version: "2.1.3", has_global_settings: false, has_own_networks: false };

fn problems(template: &str) -> Vec<String> {
    find_problems(template, &CONTEXT)
}

/// The only problem of a template that is valid except for these lines.
fn problem(lines: &str) -> String {
    let problems = problems(&format!("{IMAGES}{lines}\n"));
    assert!(problems.len() <= 1, "{lines}: {problems:#?}");
    problems.concat()
}

// Finding E-2
#[test]
fn the_first_rule_that_users_meet_is_the_one_about_images() {
    for template in ["cpus: 2\n", "images: []\n", "images: null\n"] {
        assert_eq!(problems(template), ["field `images` must be set"], "{template}");
    }
    // A base or global settings may define the images.
    assert!(problems("base: template:_images/ubuntu\n").is_empty());
    assert!(problems("base: [{url: template:_images/ubuntu}]\n").is_empty());
    assert_eq!(problems("base: []\n"), ["field `images` must be set"]);
    let context = CheckContext { has_global_settings: true, ..CONTEXT };
    assert!(find_problems("cpus: 2\n", &context).is_empty());
}

// Finding E-2
#[test]
fn the_template_of_the_app_is_accepted() {
    for template in [
        include_str!("../../../../rdd-controllers/src/app/template/golden/lima-moby.yaml"),
        include_str!("../../../../rdd-controllers/src/app/template/golden/lima-containerd-kubernetes.yaml"),
    ] {
        assert!(problems(template).is_empty(), "{:#?}", problems(template));
    }
}

// Finding E-2
#[test]
fn what_lima_accepts_is_accepted() {
    for lines in cases::ACCEPTED {
        assert_eq!(problem(lines), "", "{lines}");
    }
}

// Finding E-2
#[test]
fn what_lima_refuses_is_refused_in_its_words() {
    for (lines, expected) in cases::REFUSED {
        assert_eq!(problem(lines), *expected, "{lines}");
    }
}

// Finding E-2
#[test]
fn images_are_checked_one_by_one() {
    for (images, expected) in [
        ("[null]", "field `images[0].location` refers to an invalid local file path: \"\": empty path"),
        (
            "[{location: '~x'}]",
            "field `images[0].location` refers to an invalid local file path: \"~x\": unexpandable path \"~x\"",
        ),
        (
            "[{location: x, digest: 'sha256:abc'}]",
            "field `images[0].digest` is invalid: sha256:abc: invalid checksum digest length",
        ),
        ("[{location: x, digest: abc}]", "field `images[0].digest` is invalid: abc: invalid checksum digest format"),
        (
            "[{location: x, digest: 'md5:abc'}]",
            "field `images[0].digest` is invalid: md5:abc: unsupported digest algorithm",
        ),
        (
            "[{location: x, arch: aarch64, initrd: {location: y, arch: s390x}}]",
            "images[0].initrd has unexpected architecture \"s390x\", must be \"aarch64\"",
        ),
        (
            "[{location: x}, {location: y, kernel: {location: ''}}]",
            "field `images[1].kernel.location` refers to an invalid local file path: \"\": empty path",
        ),
    ] {
        assert_eq!(problems(&format!("images: {images}\n")), [expected], "{images}");
    }
    let digest = "0".repeat(64);
    assert!(problems(&format!("images: [{{location: x, digest: 'sha256:{digest}'}}]\n")).is_empty());
}

// Finding E-2
#[test]
fn a_value_of_another_type_is_named_with_the_type_that_it_must_have() {
    for (lines, expected) in [
        ("cpus: two", "field `cpus` must be an integer, got \"two\""),
        ("memory: [1]", "field `memory` must be a string, got a list"),
        ("plain: 'true'", "field `plain` must be true or false, got \"true\""),
        ("plain: yes", "field `plain` must be true or false, got \"yes\""),
        ("mounts: {location: /x}", "field `mounts` must be a list, got a mapping"),
        ("mounts: [x]", "field `mounts[0]` must be a mapping of fields, got \"x\""),
        ("mounts: [{location: /x, writable: 1}]", "field `mounts[0].writable` must be true or false, got 1"),
        ("env: [a]", "field `env` must be a mapping of names to strings, got a list"),
        ("env: {A: [1]}", "field `env.A` must be a string, got a list"),
        ("user: {uid: -1}", "field `user.uid` must be an integer from 0 to 4294967295, got -1"),
        ("dns: [x]", "field `dns[0]` must be an IP address, got \"x\""),
        ("additionalDisks: [[]]", "field `additionalDisks[0]` must be a string or a mapping of fields, got a list"),
        ("additionalDisks: [{format: x}]", "field `additionalDisks[0].format` must be true or false, got \"x\""),
        ("base: [[x]]", "field `base[0]` must be a string, got a list"),
        (
            "portForwards: [{guestPortRange: [1, 2, 3]}]",
            "field `portForwards[0].guestPortRange` must have two ports, the first and the last one",
        ),
    ] {
        assert_eq!(problem(lines), expected, "{lines}");
    }
    assert_eq!(problems("[").len(), 1);
    assert_eq!(problems("- a\n"), ["the template must be a mapping of fields"]);
}

// Finding E-2
#[test]
fn a_template_full_of_problems_is_answered_shortly() {
    let many = format!("{IMAGES}portForwards: [{}]\n", vec!["{guestPort: 22}"; 20_000].join(","));
    let found = problems(&many);
    assert_eq!(found.len(), PROBLEMS_MAX + 1);
    assert_eq!(found.last().map(String::as_str), Some("and 99980 more"));
    let long = problem(&format!("arch: {}", "x".repeat(100_000)));
    assert!(long.len() < 1000 && long.ends_with('…'), "{}", long.len());
    // Must not be quadratic: each name is looked up once in the uses that one pass collected.
    let params: Vec<String> = (0..20_000).map(|number| format!("p{number}: 1")).collect();
    let script = ".Param.".repeat(40_000);
    let found =
        problems(&format!("{IMAGES}param: {{{}}}\nprovision: [{{script: '{{{{{script}'}}]\n", params.join(",")));
    assert_eq!(found.last().map(String::as_str), Some("and 19980 more"));
}
