#!/bin/sh
# Builds limactl and the agent that it puts into guests, from the Go module proxy, into target/lima. Done at once when
# nothing changed: what is there was built from the same list of modules, by the same version of Go.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
modules="$root/vm/limactl"
target="$root/target/lima"
module=github.com/lima-vm/lima

export PATH="$root/target/toolchain/go/bin:$PATH"
version=$(sed -n "s|^[[:space:]]*$module v\([0-9.]*\).*|\1|p" "$modules/go.mod")
stamp="$target/.built-from"
made_of=$({ cat "$modules/go.mod" "$modules/go.sum" "$0"; go version; } | sha256sum | cut -d' ' -f1)
if [ -x "$target/bin/limactl" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$made_of" ]; then
    exit 0
fi

echo "limactl: building version $version; this takes some minutes once"
mkdir -p "$target/bin" "$target/share/lima"
rm -f "$stamp"
build() { # what, package
    (cd "$modules" && CGO_ENABLED=0 nice go build -trimpath -buildvcs=false \
        -ldflags "-s -w -X $module/pkg/version.Version=$version" -o "$1" "$module/cmd/$2")
}
build "$target/bin/limactl" limactl
build "$target/lima-guestagent" lima-guestagent
# limactl looks for it beside itself, by this name.
gzip -9 -n -c "$target/lima-guestagent" >"$target/share/lima/lima-guestagent.Linux-$(uname -m).gz"
rm "$target/lima-guestagent"
echo "$made_of" >"$stamp"
