# K3s in the guest, asked over SSH: `sh -s -- VERB …`, as root. Everything is repeatable, and nothing is kept but files.
set -eu
root=${RDD_GUEST_ROOT-}
unit=rdd-k3s.service
programs=$root/usr/local/lib/rdd
data=$root/var/lib/rancher/k3s
config=$root/etc/rancher/k3s/k3s.yaml
# What a person may add to the arguments. Made empty, and then left to whoever wants to change it.
extra=$root/etc/rancher/k3s/config.yaml
images=$data/agent/images
noted=$data/rdd-version
# Nobody can have used the data yet. Data without it is somebody's.
fresh=$data/rdd-new

is_alive() { case $(systemctl is-active "$unit" 2>/dev/null || true) in active | activating | reloading | deactivating) ;; *) return 1 ;; esac; }

has_old_groups() { [ -d "$root/sys/fs/cgroup/cpuset" ] && ! [ -e "$root/sys/fs/cgroup/cgroup.controllers" ]; }

# Containers of pods are ended with their cluster; every other container stays.
end_pods() {
    command -v docker >/dev/null 2>&1 || return 0
    pods=$(docker ps --all --quiet --filter label=io.kubernetes.pod.uid 2>/dev/null || true)
    # Identities of containers are words.
    # shellcheck disable=SC2086
    [ -z "$pods" ] || docker "$@" $pods >/dev/null 2>&1 || true
}

verb=$1
shift
case $verb in
status)
    # A K3s that could not even be started has made no data.
    if is_alive; then echo "running $(cat "$noted")"; elif [ -s "$noted" ] && [ -d "$data/server" ]; then echo "stopped $(cat "$noted")"; else echo absent; fi
    ! has_old_groups || echo 'control-groups v1'
    ;;
has) # VERSION BYTES: whether the program is there as a whole
    [ "$(stat -c %s "$programs/k3s-$1" 2>/dev/null)" = "$2" ] && echo yes || echo no
    ;;
prepare)
    mkdir -p "$programs" "$images"
    ;;
install) # VERSION: what was copied becomes the program, and no other is kept
    find "$programs" -name 'k3s-*' ! -name "k3s-$1.new" -delete
    chmod 755 "$programs/k3s-$1.new"
    mv "$programs/k3s-$1.new" "$programs/k3s-$1"
    ;;
holds) # NAME BYTES: whether the archive of images is there as a whole
    [ "$(stat -c %s "$images/$1" 2>/dev/null)" = "$2" ] && echo yes || echo no
    ;;
images) # ENGINE NAME...: no other archives are kept; K3s reads them into its own containerd, and into no other engine
    engine=$1
    shift
    for file in "$images"/*; do
        case " $* " in *" ${file##*/} "*) ;; *) rm -f "$file" ;; esac
    done
    [ "$engine" != containerd ] || exit 0
    for name; do
        # What was in it, for as long as nobody removes it from the engine.
        note=$data/agent/.loaded-$name
        # shellcheck disable=SC2046
        ! [ "$note" -nt "$images/$name" ] || ! docker image inspect $(cat "$note") >/dev/null 2>&1 || continue
        docker load --input "$images/$name" >"$note.new"
        sed -n 's/^Loaded image\( ID\)\{0,1\}: //p' "$note.new" >"$note"
        rm -f "$note.new"
    done
    ;;
clock) # [SECONDS]: sets it, if it is told to what, and says what it shows
    if [ $# -gt 0 ]; then
        date -s "@$1" >/dev/null
        # Whatever sets the one by the other later shall not undo it.
        hwclock --systohc >/dev/null 2>&1 || true
    fi
    date +%s
    ;;
foundation) # whether anybody can have used the data, and who signs the certificates of its servers
    if [ -s "$data/server/tls/server-ca.crt" ]; then
        [ -e "$fresh" ] && echo new || echo used
        cat "$data/server/tls/server-ca.crt"
    fi
    ;;
confirm)
    rm -f "$fresh"
    ;;
start) # VERSION PORT NODE ENGINE
    mkdir -p "$data" "$(dirname "$config")"
    rm -f "$config"
    [ -e "$extra" ] || echo '{}' >"$extra"
    [ -e "$noted" ] || : >"$fresh"
    printf '%s\n' "$1" >"$noted"
    systemctl reset-failed "$unit" 2>/dev/null || true
    docker=
    [ "$4" = containerd ] || docker=--docker
    # From 1.31 on the kubelet knows this flag, and from 1.35 on it needs it on control groups of version 1.
    minor=${1#v1.}
    minor=${minor%%.*}
    if has_old_groups && [ "$minor" -ge 31 ]; then
        docker="$docker --kubelet-arg fail-cgroupv1=false"
    fi
    # shellcheck disable=SC2086
    systemd-run --quiet --unit="$unit" --property=Delegate=yes --property=LimitNOFILE=1048576 --property=TasksMax=infinity \
        --property=OOMScoreAdjust=-999 "$programs/k3s-$1" server --config "$extra" --data-dir "$data" --bind-address 0.0.0.0 --https-listen-port "$2" --node-name "$3" \
        --tls-san 127.0.0.1 --write-kubeconfig "$config" --write-kubeconfig-mode 600 $docker
    ;;
started) # when the cluster that runs was started, by the guest's own clock
    ! is_alive || stat -c %Y "$noted"
    ;;
watch) # says so when the kubeconfig is there, and ends with the cluster; whoever asked may be gone, which a dot finds out
    told=
    # The journal of this start only; the unit is gone when it has ended.
    start=$(systemctl show --property=InvocationID --value "$unit" 2>/dev/null || true)
    while is_alive; do
        if [ -z "$told" ] && [ -s "$config" ]; then
            echo up
            told=yes
        fi
        echo .
        sleep 1
    done
    # What a fatal line or the last error says is the cause; what follows is logged on the way out.
    echo "ended $(journalctl ${start:+"_SYSTEMD_INVOCATION_ID=$start"} --unit="$unit" --lines=1000 --output=cat 2>/dev/null |
        awk '/ level=fatal /{fatal = $0} / level=error /{error = $0} NF {last = $0} END {print fatal ? fatal : error ? error : last}')"
    ;;
config)
    ! is_alive || cat "$config" 2>/dev/null || true
    ;;
stop) # SECONDS
    if ! is_alive; then
        echo already
    elif timeout "$1" systemctl stop "$unit"; then
        echo graceful
    else
        systemctl kill --signal=KILL "$unit" || true
        systemctl stop "$unit" || true
        echo forced
    fi
    end_pods stop --time 5
    rm -f "$config"
    ;;
reset)
    systemctl stop "$unit" 2>/dev/null || true
    end_pods rm --force
    awk -v below="$data/" 'index($2, below) == 1 {print $2}' /proc/mounts | sort -r | while read -r place; do umount "$place" || true; done
    rm -rf "$data" "$config"
    ;;
esac
