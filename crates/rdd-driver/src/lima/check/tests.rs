//! Templates that Lima takes, and those that it refuses, with its words.

use super::*;

const CONTEXT: CheckContext =
    CheckContext { lima_version: "2.1.3", has_global_settings: false, has_own_networks: false };
const IMAGES: &str = "images: [{location: /x, arch: x86_64}]\n";

fn problems(template: &str) -> Vec<String> {
    find_problems(template, &CONTEXT)
}

/// The one problem that these lines make of a template that is well otherwise.
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
    // What may come from elsewhere is not missed.
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

// Finding E-2. Each of these was asked of `limactl template validate`: Lima 1.2.1 accepts them too.
#[test]
fn what_lima_accepts_is_accepted() {
    for lines in [
        "",
        "nosuch: 1\nssh: {nosuch: 1}",
        "cpus: '2'\nmemory: 4294967296\ndisk: 1.5 TB",
        "mounts: null\nssh: null\nplain: null\nuser: {}",
        "env: {A: 1, B: true, C: null}",
        "mountType: default\narch: default\nos: ''\nvmType: qemu",
        "additionalDisks: [data, {name: da_ta}, 1]",
        "minimumLimaVersion: v1.0.0-rc.1\nvmOpts: {qemu: {minimumVersion: 8.2.1}}",
        "mounts: [{location: '~', writable: true}, {location: /x, mountPoint: /y, 9p: {msize: 128KiB}}]",
        "mounts: [{location: '{{.Dir}}', mountPoint: '{{.Home}}/x'}]",
        "plain: true\nmounts: [{location: relative}]\nportForwards: [{guestPort: 22}]",
        "provision: [{script: 1}, {mode: data, path: /x, content: y}, {mode: ansible, playbook: p.yaml}]",
        "provision: [{file: p.sh}]\nprobes: [{file: {url: p.sh}}]\nparam: {A: x}",
        "probes: [{script: '#!/bin/sh'}, {mode: readiness, script: \"#!x\"}]",
        "portForwards: [{}, {guestPort: 80}, {guestPortRange: [1, 9], hostPortRange: [11, 19]}, {guestIP: ''}]",
        "portForwards: [{guestSocket: /x, hostSocket: y.sock}, {guestPort: 80, hostIP: '::1', proto: udp}]",
        "networks: [{lima: user-v2}, {socket: /s, interface: eth1, macAddress: '52:55:55:aa:bb:cc'}]",
        "hostResolver: {enabled: false}\ndns: [1.1.1.1]",
        "containerd: {user: false, archives: [{location: '', arch: q}]}",
        "param: {A: x, B_1: \"a\\tb\"}\nprovision: [{script: 'echo $PARAM_A {{ .Param.B_1 }}'}]",
        "param: {A: x}\ncopyToHost: [{guest: '/{{.Param.A}}', host: /y}]",
    ] {
        assert_eq!(problem(lines), "", "{lines}");
    }
}

// Finding E-2. The words are those of Lima, where its reader of YAML does not show the line instead.
#[test]
fn what_lima_refuses_is_refused_in_its_words() {
    for (lines, expected) in [
        ("arch: x86", "field `arch` must be one of [x86_64 aarch64 armv7l ppc64le riscv64 s390x]; got \"x86\""),
        ("os: windows", "field `os` must be one of [\"Linux\" \"Darwin\" \"FreeBSD\"]; got \"windows\""),
        (
            "minimumLimaVersion: x",
            "field `minimumLimaVersion` must be a semvar value, got \"x\": x is not in dotted-tri format",
        ),
        ("minimumLimaVersion: 99.0.0", "template requires Lima version \"99.0.0\"; this is only \"2.1.3\""),
        (
            "vmOpts: {qemu: {minimumVersion: 8.x.1}}",
            "field `vmOpts.qemu.minimumVersion` must be a semvar value, got \"8.x.1\": strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        ("memory: lots", "field `memory` has an invalid value: invalid size: 'lots'"),
        ("disk: 5XB", "field `disk` has an invalid value: invalid suffix: 'xb'"),
        (
            "additionalDisks: [a..b]",
            "field `additionalDisks[0].name is invalid`: identifier \"a..b\" must match ^[A-Za-z0-9]+(?:[._-](?:[A-Za-z0-9]+))*$",
        ),
        ("additionalDisks: [{}]", "field `additionalDisks[0].name is invalid`: identifier must not be empty"),
        ("ssh: {localPort: 22}", "field `ssh.localPort` must not be 22"),
        ("ssh: {localPort: 70000}", "field `ssh.localPort` must be < 65536"),
        ("mounts: [{location: a/b}]", "field `mounts[0].location` must be an absolute path, got \"a/b\""),
        (
            "mounts: [{location: ~ann, mountPoint: /ann}]",
            "field `mounts[0].location` refers to an unexpandable path: \"~ann\": unexpandable path \"~ann\"",
        ),
        (
            "mounts: [{location: /tmp//.}]",
            "field `mounts[0].mountPoint` must not be a system path such as /etc or /usr",
        ),
        ("mounts: [{location: /x, mountPoint: ~/x}]", "field `mounts[0].mountPoint` must not start with \"~\""),
        (
            "user: {home: /h}\nmounts: [{location: /x, mountPoint: /h}]",
            "field `mounts[0].mountPoint` is the reserved internal home directory \"/h\"",
        ),
        ("mounts: [{location: /x, 9p: {msize: big}}]", "field `msize` has an invalid value: invalid size: 'big'"),
        (
            "mountType: nfs",
            "field `mountType` must be \"reverse-sshfs\" or \"9p\" or \"virtiofs\", or \"wsl2\", got \"nfs\"",
        ),
        (
            "mountType: 9p\nmountTypesUnsupported: [9p, virtiofs]",
            "field `mountType` must not be one of [9p virtiofs] (`mountTypesUnsupported`), got \"9p\"",
        ),
        (
            "provision: [{mode: root, script: x}]",
            "field `provision[0].mode` must one of \"system\", \"user\", \"boot\", \"data\", \"dependency\", \"ansible\", or \"yq\"",
        ),
        ("provision: [{}]", "field `provision[0].script` must not be empty"),
        (
            "provision: [{script: x, skipDefaultDependencyResolution: true}]",
            "field `provision[0].mode` cannot set skipDefaultDependencyResolution, only valid on scripts of type \"dependency\"",
        ),
        ("provision: [{mode: data, content: x}]", "field `provision[0].path` must not be empty when mode is \"data\""),
        ("provision: [{mode: data, path: x}]", "field `provision[0].path` must be an absolute path"),
        ("provision: [{mode: yq, path: /x}]", "field `provision[0].expression` must not be empty when mode is \"yq\""),
        (
            "provision: [{mode: data, path: /x, permissions: 9}]",
            "field `provision[0].permissions` must be an octal number: strconv.ParseInt: parsing \"9\": invalid syntax",
        ),
        (
            "provision: [{script: x, path: /x}]",
            "field `provision[0].path` can only be set when mode is \"data\", or \"yq\"",
        ),
        (
            "provision: [{script: x, file: {url: y, digest: z}}]",
            "field `provision[0].file.digest` support is not yet implemented",
        ),
        (
            "containerd: {archives: [{location: '', arch: aarch64}]}",
            "field `containerd.archives[0].location` refers to an invalid local file path: \"\": empty path",
        ),
        ("probes: [{script: true}]", "field `probe[0].script` must start with a '#!' line"),
        ("probes: [{script: '#!', mode: alive}]", "field `probe[0].mode` can only be \"readiness\""),
        (
            "portForwards: [{guestIPMustBeZero: true, guestIP: 127.0.0.1}]",
            "field `portForwards[0].guestIPMustBeZero` can only be true when field `portForwards[0].guestIP` is 0.0.0.0",
        ),
        (
            "portForwards: [{guestPort: 1, guestSocket: /x}]",
            "field `portForwards[0].guestPort` must be 0 when field `portForwards[0].guestSocket` is set",
        ),
        (
            "portForwards: [{guestPort: 5, guestPortRange: [6, 6]}]",
            "field `portForwards[0].guestPort` must match field `portForwards[0].guestPortRange[0]`",
        ),
        (
            "portForwards: [{guestPortRange: [1, 9], hostPortRange: [1, 8]}]",
            "field `portForwards[0].hostPortRange` must specify the same number of ports as field `portForwards[0].guestPortRange`",
        ),
        (
            "portForwards: [{guestSocket: x, hostSocket: y}]",
            "field `portForwards[0].guestSocket` must be an absolute path, but is \"x\"",
        ),
        (
            "portForwards: [{hostSocket: /x}]",
            "field `portForwards[0].hostSocket` can only be mapped from a single port or socket. not a range",
        ),
        (
            "portForwards: [{guestSocket: /x}]",
            "field `portForwards[0].guestSocket` can only be mapped to a single port or socket. not a range",
        ),
        (
            "portForwards: [{guestPort: 80, proto: sctp}]",
            "field `portForwards[0].proto` must be \"tcp\", \"udp\", or \"any\"",
        ),
        (
            "portForwards: [{guestPort: 80, hostSocket: /x, reverse: true}]",
            "field `portForwards[0].reverse` must be false",
        ),
        ("copyToHost: [{guest: x, host: /y}]", "field `CopyToHost[0].guest` must be an absolute path, but is \"x\""),
        ("dns: [1.1.1.1]", "field `dns` must be empty when field `HostResolver.Enabled` is true"),
        ("networks: [{}]", "field `networks[0].lima` or  field `networks[0].socket must be set"),
        ("networks: [{lima: shared}]", "field `networks[0].lima` is only supported on macOS right now"),
        (
            "networks: [{lima: mine}]",
            "field `networks[0].lima` references network \"mine\" which is not defined in networks.yaml",
        ),
        (
            "networks: [{lima: user-v2, socket: /s}]",
            "field `networks[0].lima` and field `networks[0].socket` are mutually exclusive",
        ),
        ("networks: [{vzNAT: true}]", "field `networks[0].vzNAT` requires `vmType` to be \"vz\""),
        (
            "networks: [{lima: user-v2, macAddress: '52:55:55:aa:bb:cc:dd:ee'}]",
            "field `networks[0].macAddress` must be a 48 bit (6 bytes) MAC address; actual length of \"52:55:55:aa:bb:cc:dd:ee\" is 8 bytes",
        ),
        (
            "networks: [{lima: user-v2, interface: eth0}]",
            "field `networks[0].interface` must not be set to \"eth0\" because it is reserved for slirp",
        ),
        (
            "networks: [{lima: user-v2, interface: 'a b'}]",
            "field `networks[0].interface` must not contain whitespace or slashes",
        ),
        (
            "networks: [{lima: user-v2, interface: lima1}, {lima: user-v2}]",
            "field `networks[1].interface` value \"lima1\" has already been used by field `networks[0].interface`",
        ),
        ("param: {1a: x}", "param \"1a\" name does not match regex \"^[a-zA-Z][a-zA-Z0-9_]*$\""),
        (
            "param: {A: x}\nprovision: [{script: '$PARAM_AB {.Param.A} {{ } .Param.A }}'}]",
            "field `param` key \"A\" is not used in any provision, probe, copyToHost, or portForward",
        ),
        (
            "param: {A: \"a\\u0007\"}\nprovision: [{script: '{{.Param.A}}'}]",
            "param \"A\" value contains unprintable character '\\a'",
        ),
    ] {
        assert_eq!(problem(lines), expected, "{lines}");
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
    // Each name is looked up once in what one pass over the scripts found.
    let params: Vec<String> = (0..20_000).map(|number| format!("p{number}: 1")).collect();
    let script = ".Param.".repeat(40_000);
    let found =
        problems(&format!("{IMAGES}param: {{{}}}\nprovision: [{{script: '{{{{{script}'}}]\n", params.join(",")));
    assert_eq!(found.last().map(String::as_str), Some("and 19980 more"));
}
