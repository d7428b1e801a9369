#!/bin/sh
# Builds the guest image that tests boot: Debian packages, a root file system, a kernel with a small initramfs. Everything
# goes into target/vm-image; done at once when nothing changed. Needs root, or user namespaces.
#
#   disk.img    ext4, sparse, without a partition table
#   vmlinuz     the kernel
#   initrd      what it takes to see the disk
#   image.yaml  the `images:` and `firmware:` of a Lima template, with digests
set -eu

suite=bookworm
packages="systemd,systemd-sysv,kmod,udev,openssh-server,sudo,docker.io,containerd,runc,iptables,iproute2,ca-certificates,\
procps,curl,e2fsprogs,busybox-static,linux-image-amd64,conntrack,util-linux,hostname"
# As much room as there is besides what is installed, until the file system has grown.
spare_mb=200

root=$(cd "$(dirname "$0")/.." && pwd)
source="$root/vm/image"
target="$root/target/vm-image"
stamp="$target/.built-from"
made_of=$({ find "$source" -type f -print | sort | xargs cat; cat "$0"; } | sha256sum | cut -d' ' -f1)
if [ -e "$target/image.yaml" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$made_of" ]; then
    exit 0
fi
for program in mmdebstrap mke2fs cpio; do
    command -v "$program" >/dev/null 2>&1 || { echo "vm-image: $program is missing; run: make setup" >&2; exit 1; }
done

echo "vm-image: building; this takes some minutes once"
mkdir -p "$target"
work=$(mktemp -d "$target/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=1700000000

# Programs are installed, not configured for a machine of their own: no keys, no logs, no documentation.
nice mmdebstrap --quiet --variant=minbase --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --customize-hook="$source/customize \"\$1\" '$source'" \
    "$suite" "$work/root.tar" >&2

mkdir "$work/root"
tar -C "$work/root" --numeric-owner -xpf "$work/root.tar" --exclude='./dev/*'
rm "$work/root.tar"
kernel=$(basename "$(echo "$work"/root/boot/vmlinuz-*)" | sed 's/^vmlinuz-//')
mv "$work/root/boot/vmlinuz-$kernel" "$work/vmlinuz"
rm -rf "$work/root/boot"/*

# The initramfs: one program, some modules, in the order in which they can be loaded.
mkdir -p "$work/initramfs/bin" "$work/initramfs/modules" "$work/initramfs/dev" "$work/initramfs/proc" "$work/initramfs/root"
cp "$work/root/bin/busybox" "$work/initramfs/bin/busybox"
cp "$source/initramfs-init" "$work/initramfs/init"
grep -v '^#' "$source/modules.txt" | while read -r module; do
    modprobe --dirname "$work/root" --set-version "$kernel" --show-depends "$module"
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r file; do
    cp "$file" "$work/initramfs/modules/"
    basename "$file"
done >"$work/initramfs/modules/order"
(cd "$work/initramfs" && find . | sort | cpio --quiet -o -H newc --owner 0:0) | gzip -1 -n >"$work/initrd"

used_mb=$(du -sm "$work/root" | cut -f1)
nice mke2fs -q -t ext4 -L rdd-guest -d "$work/root" -E lazy_itable_init=1,lazy_journal_init=1,resize=33554432 \
    -O ^metadata_csum "$work/disk.img" "$((used_mb + spare_mb))M"

digest() { sha256sum "$1" | cut -d' ' -f1; }
for file in disk.img vmlinuz initrd; do mv "$work/$file" "$target/$file"; done
cat >"$target/image.yaml" <<END
# A kernel that is started directly needs no firmware, and emulated firmware is slow.
firmware:
  legacyBIOS: true
images:
- location: "$target/disk.img"
  arch: x86_64
  digest: "sha256:$(digest "$target/disk.img")"
  kernel:
    location: "$target/vmlinuz"
    digest: "sha256:$(digest "$target/vmlinuz")"
    cmdline: "root=/dev/vda rw console=ttyS0 net.ifnames=0 quiet mitigations=off apparmor=0 selinux=0 audit=0 random.trust_cpu=on systemd.show_status=0 systemd.unified_cgroup_hierarchy=1 raid=noautodetect tsc=reliable no_timer_check noresume"
  initrd:
    location: "$target/initrd"
    digest: "sha256:$(digest "$target/initrd")"
END
echo "$made_of" >"$stamp"
echo "vm-image: $(du -m "$target/disk.img" | cut -f1) MB on disk, kernel $kernel"
