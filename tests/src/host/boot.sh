# The init process of a test host: $1 is its directory, $2 its name. It exits, and with it all processes, when its stdin is closed.
set -e
folder=$1 cgroups=/sys/fs/cgroup new=$1/sys own=$(basename "$1")
hostname "$2"
mount -t proc proc /proc

# A new sysfs mount shows the devices of the network namespace of this process.
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
    # A new cpuset cgroup has no CPUs and memory nodes, so those of its parent are copied.
    for file in cpuset.cpus cpuset.mems; do
      if [ -e "$tree/$file" ]; then cat "$tree/$file" >"$tree/$own/$file"; fi
    done
    mount --bind "$tree/$own" "$new/fs/cgroup/${tree##*/}"
  done
fi
# Programs use the first cgroup mount in the mount table, even if another mount covers it.
umount -l /sys
mount --move "$new" /sys

mount --bind "$folder/run" /run
mount --bind "$folder/hosts" /etc/hosts
mount --bind /dev/null /etc/resolv.conf
mount --make-rshared /
ip link set lo up
# IP forwarding is off, as after a boot: an engine that enables it sets the FORWARD policy to DROP.
echo 0 >/proc/sys/net/ipv4/ip_forward
: >/run/booted
# `cat` is not the last command: the shell must stay, because it reaps orphaned processes.
cat
exit 0
