#!/bin/sh
# Compiles the Go programs that test rdd into Go's build cache, at the lowest priority. The test runner starts this script beside the first tests, which
# mostly wait. Each test that needs a program then only links it. If Go or a module is missing, the test that needs it reports this.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
export PATH="$root/target/toolchain/go/bin:$PATH" GOTOOLCHAIN=local GOFLAGS=-buildvcs=false
command -v go >/dev/null 2>&1 || exit 0
renice -n 19 $$ >/dev/null 2>&1

for folder in conformance/oracle-builtin conformance/oracle conformance/oracle-cel crates/rdd-meta/tests/oracle conformance/client-go conformance examples/go; do
    cd "$root/$folder" && go build -o /dev/null ./... >/dev/null 2>&1
done
cd "$root/conformance/k3s-standin" && CGO_ENABLED=0 go build -o /dev/null . >/dev/null 2>&1
# Tests use these programs directly, so link them, too.
for program in kubectl control-plane; do
    "$root/conformance/kubernetes/build.sh" $program >/dev/null 2>&1
done
exit 0
