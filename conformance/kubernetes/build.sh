#!/bin/sh
# Builds a program of Kubernetes from the Go module proxy, once per version: its path is the last line of the output.
#
#   conformance/kubernetes/build.sh kubectl    the pinned kubectl (a minute)
#   conformance/kubernetes/build.sh e2e.test   upstream's end-to-end tests (a quarter of an hour)
#   conformance/kubernetes/build.sh control-plane   kube-apiserver, and the etcd that is on the PATH (some minutes)
set -eu

program=${1:-}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
version=$(sed -n 's#^.*k8s.io/kubernetes \(v[0-9.]*\).*#\1#p' "$here/go.mod" | head -n 1)
folder=$root/target/conformance/$version
export PATH="$root/target/toolchain/go/bin:$PATH" GOTOOLCHAIN=local GOFLAGS=-buildvcs=false
mkdir -p "$folder"

# Clients behave by what they think their version is, and say so to the server.
flags=-s\ -w
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags="$flags -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$(echo "$version" | cut -d. -f2)"
    flags="$flags -X $package.gitTreeState=clean -X $package.gitCommit=0000000000000000000000000000000000000000"
done

cd "$here"
case $program in
kubectl)
    [ -x "$folder/kubectl" ] ||
        { go build -ldflags "$flags" -o "$folder/kubectl.new" k8s.io/kubernetes/cmd/kubectl && mv "$folder/kubectl.new" "$folder/kubectl"; } ;;
e2e.test)
    if ! [ -x "$folder/e2e.test" ]; then
        go test -c -ldflags "$flags" -o "$folder/e2e.test.new" k8s.io/kubernetes/test/e2e
        mv "$folder/e2e.test.new" "$folder/e2e.test"
    fi ;;
control-plane)
    plane=$root/target/conformance/control-plane
    mkdir -p "$plane"
    [ -x "$plane/kube-apiserver" ] || { go build -ldflags "$flags" -o "$plane/kube-apiserver.new" k8s.io/kubernetes/cmd/kube-apiserver &&
        mv "$plane/kube-apiserver.new" "$plane/kube-apiserver"; }
    [ -x "$plane/etcd" ] || ln -s "$(command -v etcd)" "$plane/etcd"
    echo "$plane"
    exit ;;
*) echo "usage: $0 kubectl|e2e.test|control-plane" >&2; exit 2 ;;
esac
echo "$folder/$program"
