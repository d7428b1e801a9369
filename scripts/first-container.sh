#!/bin/sh
# Starts a small container in the engine that `docker` uses. It builds the image locally, without a registry. It can be repeated.
#
#   rdd run scripts/first-container.sh
set -eu

name=hello
image=rdd/hello:1

make_image() {
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    busybox=$(command -v busybox)
    mkdir "$folder/bin"
    cp "$busybox" "$folder/bin/busybox"
    for applet in date echo sh sleep; do ln -s busybox "$folder/bin/$applet"; done
    # A busybox that is not static needs its libraries.
    for library in $(ldd "$busybox" 2>/dev/null | grep -o '/[^ ]*' || true); do
        mkdir -p "$folder$(dirname "$library")"
        cp "$library" "$folder$library"
    done
    tar -C "$folder" -c . | docker import - "$image" >/dev/null
}

docker image inspect "$image" >/dev/null 2>&1 || make_image
docker rm --force "$name" >/dev/null 2>&1 || true
id=$(docker run --detach --name "$name" "$image" sh -c 'echo "hello from a container"; while :; do sleep 3600; done')
docker ps --filter "name=$name"
# The container's API object appears a moment later.
tries=0
until rdd ctl get "container/$id" >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 50 ] || { echo "the container does not appear in the API" >&2; exit 1; }
    sleep 0.1
done
rdd ctl wait --for=condition=Running "container/$id" --timeout=30s >/dev/null
