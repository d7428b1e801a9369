#!/bin/sh
# Installs missing packages on a Debian machine, and nothing else. If nothing is missing, it is quick and does not run apt.
#
#   scripts/setup.sh run     packages for building and running the product
#   scripts/setup.sh test    also packages for tests and benchmarks
#   scripts/setup.sh vm      also packages for tests with a virtual machine
set -eu

level=${1:-test}
case $level in run | test | vm) ;; *) echo "usage: $0 run|test|vm" >&2; exit 2 ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)

# level, command to check for, Debian package, purpose
tools() {
    cat <<'END'
run  cc        gcc                SQLite is compiled with the product
run  busybox   busybox-static     the program in the containers of `make run` and of tests
run  docker    docker-cli         the docker command
run  dockerd   docker.io          the engine under the host driver, with its containerd and runc
run  git       git                the version of a build comes from it
run  ip        iproute2           the bridge of an engine
run  iptables  iptables           the packet rules of an engine
test etcd      etcd-server        the benchmark compares rdd with it
test eu-stack  elfutils           stacks of a test that hangs
test fish      fish               the completion script of fish is run by fish
test gpg       gnupg              signs lists of digests in tests
test gpgv      gpgv               verifies those signatures
test kubectl   kubernetes-client  the judge of our API
test newuidmap uidmap             a container engine without root
test ps        procps             for people who read a support bundle on the machine
test rootlesskit rootlesskit       a container engine without root
test setpriv   util-linux         a benchmark's etcd dies with the benchmark; tests of engines have their own network
test slirp4netns slirp4netns       the network of a container engine without root
test sudo      sudo               tests as another user
test zsh       zsh                the completion script of zsh is run by zsh
vm   cpio      cpio               the first files of the guest
vm   mke2fs    e2fsprogs          the disk of the guest
vm   mmdebstrap mmdebstrap         the root of the guest
vm   modprobe  kmod               the modules of the guest
vm   qemu-img  qemu-utils         the disks of a virtual machine
vm   qemu-system-x86_64 qemu-system-x86  the virtual machine
vm   ssh       openssh-client     how Lima reaches its guest
END
}

say() { echo "setup: $*"; }

missing_packages() {
    tools | while read -r needs command package _; do
        case $level-$needs in *-run | test-test | vm-*) ;; *) continue ;; esac
        command -v "$command" >/dev/null 2>&1 && continue
        # Up to Debian 12, docker.io includes the docker command.
        [ "$package" != docker-cli ] || apt-cache show docker-cli >/dev/null 2>&1 || package=docker.io
        printf ' %s' "$package"
    done
    # A compiler without its headers cannot build anything.
    [ -e /usr/include/stdio.h ] || printf ' %s' libc6-dev
}

install_packages() {
    packages=$1
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        as_root=sudo
        if ! command -v sudo >/dev/null 2>&1 || ! { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
            say "these packages are missing, and only root can install them; run as root:" >&2
            echo "    apt-get install$packages" >&2
            exit 1
        fi
    fi
    if ! command -v apt-get >/dev/null 2>&1; then
        say "this is no Debian; install what these Debian packages hold, then come back:$packages" >&2
        exit 1
    fi
    say "installing$packages"
    # Install programs without starting services: Debian starts a service on installation unless this file forbids it.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap '$as_root rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
        $as_root chmod 755 "$policy"
    fi
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    # The package names come from the table above and contain no spaces.
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $packages >/dev/null
}

# Checks for the pinned compiler, and says how to install it with rustup.
check_rust() {
    pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$root/rust-toolchain.toml")
    if ! command -v cargo >/dev/null 2>&1; then
        say "cargo is missing. Install rustup (a package since Debian 13, else as its home page says), then:" >&2
        echo "    rustup toolchain install $pinned --profile minimal --component rustfmt --component clippy" >&2
        exit 1
    fi
    found=$(cd "$root" && rustc --version 2>/dev/null | cut -d' ' -f2) || true
    if [ "$found" != "$pinned" ]; then
        say "Rust $pinned is pinned in rust-toolchain.toml, and ${found:-none} is here. Get it with:" >&2
        echo "    rustup toolchain install $pinned --profile minimal --component rustfmt --component clippy" >&2
        exit 1
    fi
    [ "$level" != run ] || return 0
    for part in fmt clippy; do
        (cd "$root" && cargo "$part" --version >/dev/null 2>&1) && continue
        say "cargo $part is missing: rustup component add rustfmt clippy --toolchain $pinned" >&2
        exit 1
    done
}

# The tests use upstream's libraries, which need a recent Go. Debian's Go is older. The pinned version comes from the
# module proxy, from which Go itself would download it, and is linked under target/, where only our own commands look.
ensure_go() {
    pinned=1.26.8
    needed=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' "$root/conformance/oracle/go.mod")
    export PATH="$root/target/toolchain/go/bin:$PATH"
    if have_go "$needed"; then return; fi
    command -v go >/dev/null 2>&1 || install_packages " golang-go ca-certificates"
    say "getting Go $pinned"
    module="golang.org/toolchain@v0.0.1-go$pinned.linux-$(dpkg --print-architecture)"
    folder=$(cd / && GO111MODULE=on GOFLAGS= GOTOOLCHAIN=local go mod download -json "$module" |
        sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p')
    [ -d "$folder" ] || { say "Go $pinned could not be had from the module proxy" >&2; exit 1; }
    # Files in modules are not executable.
    chmod -R u+w "$folder"
    chmod +x "$folder"/bin/* "$folder"/pkg/tool/*/*
    mkdir -p "$root/target/toolchain"
    ln -sfn "$folder" "$root/target/toolchain/go"
    hash -r
    have_go "$needed" || { say "Go $pinned does not run here" >&2; exit 1; }
}

# Succeeds if the go on the PATH is this version or newer.
have_go() {
    found=$(GOTOOLCHAIN=local go version 2>/dev/null | sed -n 's/^go version go\([0-9]*\.[0-9]*\).*/\1/p')
    [ -n "$found" ] && [ "$(printf '%s\n%s\n' "$1" "$found" | sort -V | head -n 1)" = "$1" ]
}

# Run twice: apt knows which packages exist only after the first update.
for _ in 1 2; do
    packages=$(missing_packages)
    [ -z "$packages" ] || install_packages "$packages"
done
if [ -n "$packages" ]; then
    packages=$(missing_packages)
    [ -z "$packages" ] || { say "still missing after installing:$packages" >&2; exit 1; }
fi
check_rust
[ "$level" = run ] || ensure_go
say "everything is there to $level"
