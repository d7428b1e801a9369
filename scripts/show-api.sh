#!/bin/sh
# Shows what the running API server has, by the first client that is on the machine. It reads only, so it can be repeated.
#
#   scripts/show-api.sh PATH-OF-RDD
set -eu

rdd=${1:?usage: show-api.sh PATH-OF-RDD}
config=$("$rdd" svc paths config)

if command -v kubectl >/dev/null 2>&1; then
    exec kubectl --kubeconfig "$config" get namespaces
fi

field() { sed -n "s/^ *\(- \)\{0,1\}$1: *//p" "$config" | head -n 1 | tr -d "\"'"; }

if command -v curl >/dev/null 2>&1; then
    echo 'kubectl is not here, so curl asks:'
    authority=$(mktemp)
    trap 'rm -f "$authority"' EXIT
    field certificate-authority-data | base64 -d >"$authority"
    # By stdin: what is in an argument can be read by everyone on the machine.
    printf 'Authorization: Bearer %s\n' "$(field token)" |
        curl --silent --show-error --fail --cacert "$authority" --header @- \
            --header 'Accept: application/yaml' "$(field server)/api/v1/namespaces/default"
    exit
fi

echo 'neither kubectl nor curl is here; install one of them to see the API'
