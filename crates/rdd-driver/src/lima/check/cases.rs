//! Template lines that Lima accepts or refuses. Tests of our check use them, and `make test-vm` validates them with the
//! real `limactl`.

/// The lines that complete each case to a valid template.
pub const IMAGES: &str = "images: [{location: /x, arch: x86_64}]\n";

/// Accepted lines, if the files `p.sh` and `p.yaml` exist. Lima 1.2.1, which `make limactl` builds, accepts all of
/// them.
pub const ACCEPTED: &[&str] = &[
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
];

/// Refused lines with the messages of Lima 2, from its source. Lima 1.2.1 refuses them too, some with other messages,
/// except for
/// [`ACCEPTED_BY_LIMA_1`].
pub const REFUSED: &[(&str, &str)] = &[
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
    ("mounts: [{location: /tmp//.}]", "field `mounts[0].mountPoint` must not be a system path such as /etc or /usr"),
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
    ("portForwards: [{guestPort: 80, hostSocket: /x, reverse: true}]", "field `portForwards[0].reverse` must be false"),
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
];

/// The refused lines that Lima 1 accepts.
pub const ACCEPTED_BY_LIMA_1: &[&str] = &["mounts: [{location: a/b}]"];
