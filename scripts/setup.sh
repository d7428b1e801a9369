#!/bin/sh
# Installs what is missing on a Debian machine, and nothing else. Quick, and silent to apt, when nothing is.
#
#   scripts/setup.sh run     what building and running the product needs
#   scripts/setup.sh test    what its tests and benchmarks need as well
#   scripts/setup.sh vm      what tests with a virtual machine need on top of that
set -eu

level=${1:-test}
case $level in run | test | vm) ;; *) echo "usage: $0 run|test|vm" >&2; exit 2 ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)

# level, command that proves it is there, Debian package, what it is for
tools() {
    cat <<'END'
run  cc        gcc                SQLite is compiled with the product
run  busybox   busybox-static     what runs in the container of `make run`, and in those of tests
run  docker    docker-cli         the command that people know
run  dockerd   docker.io          the engine under the host driver, with its containerd and runc
run  git       git                the version of a build is read from it
run  ip        iproute2           the bridge of an engine
run  iptables  iptables           the packet rules of an engine
test etcd      etcd-server        the benchmark writes to it beside us
test eu-stack  elfutils           stacks of a test that hangs
test fish      fish               the completion script of fish is run by fish
test gpg       gnupg              signs lists of digests in tests
test gpgv      gpgv               verifies those signatures
test kubectl   kubernetes-client  the judge of our API
test newuidmap uidmap             a container engine without root
test ps        procps             for whoever reads a support bundle on the spot
test rootlesskit rootlesskit       a container engine without root
test setpriv   util-linux         a benchmark's etcd dies with the benchmark; tests of engines have a network of their own
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
        # Up to Debian 12 the command comes with the engine.
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
    # Programs are wanted, not services: Debian starts a service when it is installed, unless this file says no.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap '$as_root rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
        $as_root chmod 755 "$policy"
    fi
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    # The list is ours and has no spaces in its names.
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $packages >/dev/null
}

# The compiler is pinned. rustup gets exactly that one, and only when asked.
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

# Upstream's own libraries judge ours, and they need a recent Go. Debian's is older; the one that is pinned comes from the
# module proxy, as Go itself would get it, and lies under target/ where only our own commands look.
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
    # Modules carry no permission to execute.
    chmod -R u+w "$folder"
    chmod +x "$folder"/bin/* "$folder"/pkg/tool/*/*
    mkdir -p "$root/target/toolchain"
    ln -sfn "$folder" "$root/target/toolchain/go"
    hash -r
    have_go "$needed" || { say "Go $pinned does not run here" >&2; exit 1; }
}

# Whether the go on the path is this version or newer.
have_go() {
    found=$(GOTOOLCHAIN=local go version 2>/dev/null | sed -n 's/^go version go\([0-9]*\.[0-9]*\).*/\1/p')
    [ -n "$found" ] && [ "$(printf '%s\n%s\n' "$1" "$found" | sort -V | head -n 1)" = "$1" ]
}

# Twice: which packages there are is known only after the first time.
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
