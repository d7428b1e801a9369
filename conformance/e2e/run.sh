#!/bin/sh
# Runs upstream's end-to-end tests against a daemon of its own. Builds for a quarter of an hour the first time.
#
#   conformance/e2e/run.sh [arguments of the judge, such as -only Watchers]
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export PATH="$root/target/toolchain/go/bin:$PATH" GOTOOLCHAIN=local
kubectl=$("$root/conformance/kubernetes/build.sh" kubectl | tail -n 1)
program=$("$root/conformance/kubernetes/build.sh" e2e.test | tail -n 1)
judge=$root/target/conformance/e2e
(cd "$root/conformance" && go build -o "$judge" ./e2e)
report=$root/target/conformance/e2e-report
mkdir -p "$report"

rdd=${RDD_BINARY:-$root/target/release/rdd}
home=$(mktemp -d)
# The daemon keeps everything in its home; the tests get ours, where Go and others keep their caches.
daemon() { env HOME="$home" RDD_INSTANCE=conformance RDD_DEVELOPER_MODE=false "$rdd" "$@"; }
trap 'daemon svc delete >/dev/null 2>&1 || true; rm -rf "$home"' EXIT
trap 'exit 1' INT TERM
daemon svc start
"$judge" -program "$program" -kubectl "$kubectl" -kubeconfig "$(daemon svc paths config)" -folder "$here" -report "$report" "$@"
