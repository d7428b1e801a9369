#!/bin/sh
# Compiles the Go programs that judge us into Go's build cache, at the lowest priority. The test runner starts it beside the first tests, which mostly
# wait; each test that needs a judge then only links it. Where there is no Go, or a module cannot be had, the test that needs it says so.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
export PATH="$root/target/toolchain/go/bin:$PATH" GOTOOLCHAIN=local GOFLAGS=-buildvcs=false
command -v go >/dev/null 2>&1 || exit 0
renice -n 19 $$ >/dev/null 2>&1

for folder in conformance/oracle-builtin conformance/oracle conformance/oracle-cel crates/rdd-meta/tests/oracle conformance/client-go conformance examples/go; do
    cd "$root/$folder" && go build -o /dev/null ./... >/dev/null 2>&1
done
cd "$root/conformance/k3s-standin" && CGO_ENABLED=0 go build -o /dev/null . >/dev/null 2>&1
# Linked too, since tests take these programs as they are.
for program in kubectl control-plane; do
    "$root/conformance/kubernetes/build.sh" $program >/dev/null 2>&1
done
exit 0
