# The first process of a host of its own: $1 is its folder, $2 its name. It ends, and with it all others, when nobody holds its input.
set -e
folder=$1 cgroups=/sys/fs/cgroup new=$1/sys own=$(basename "$1")
hostname "$2"
mount -t proc proc /proc

# Links and switches under /sys are those of the network of whoever mounts it.
mkdir -p "$new"
mount -t sysfs sysfs "$new"
if [ -e $cgroups/cgroup.controllers ]; then
  mkdir -p "$cgroups/$own"
  mount --bind "$cgroups/$own" "$new/fs/cgroup"
else
  mount -t tmpfs -o mode=755 tmpfs "$new/fs/cgroup"
  for tree in $cgroups/*; do
    if [ -L "$tree" ]; then cp -P "$tree" "$new/fs/cgroup/"; continue; fi
    mkdir -p "$tree/$own" "$new/fs/cgroup/${tree##*/}"
    # What a cgroup of this kind may run on is said by nobody but us.
    for file in cpuset.cpus cpuset.mems; do
      if [ -e "$tree/$file" ]; then cat "$tree/$file" >"$tree/$own/$file"; fi
    done
    mount --bind "$tree/$own" "$new/fs/cgroup/${tree##*/}"
  done
fi
# Who looks for a cgroup takes the first mount of its kind, also one that is covered.
umount -l /sys
mount --move "$new" /sys

mount --bind "$folder/run" /run
mount --bind "$folder/hosts" /etc/hosts
mount --bind /dev/null /etc/resolv.conf
mount --make-rshared /
ip link set lo up
# As on a machine that was just switched on: an engine that is the first to switch it on drops what is forwarded.
echo 0 >/proc/sys/net/ipv4/ip_forward
: >/run/booted
# Not the last command, so that the shell stays and buries whoever has lost his parent.
cat
exit 0
