#!/usr/bin/env bash
# Builds the Debian packages coracle-kubelet and coracle-master from binaries that exist. Needs dpkg-deb, and no root.
#
#   hack/deb.sh BINARIES [OUTPUT]   BINARIES has kubelet, master and command-pages; OUTPUT is target/deb by default
#
# VERSION sets the version of the packages, by default that of Cargo.toml. COMPRESSION is that of dpkg-deb: xz, zstd, none.
# The same inputs give the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "deb: $*"; }
die() { echo "deb: $*" >&2; exit 1; }

[ $# = 1 ] || [ $# = 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
command -v dpkg-deb >/dev/null || die "dpkg-deb is missing: run this on Debian or Ubuntu, or install the package dpkg"
BINARIES=$1
OUTPUT=${2:-${CARGO_TARGET_DIR:-target}/deb}
VERSION=${VERSION:-$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)}
COMPRESSION=${COMPRESSION:-xz}
ARCHITECTURE=$(dpkg --print-architecture)
# The time of files in the packages is that of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
MAINTAINER="The Coracle contributors <coracle@example.invalid>"
for file in kubelet master command-pages; do [ -x "$BINARIES/$file" ] || die "$BINARIES/$file is missing: run make deb"; done

STAGE=$(mktemp -d)
trap 'rm -rf "$STAGE"' EXIT

# A static binary needs no library. Another one needs the C library with which it was built.
c_library() {
  if [[ $(LC_ALL=C ldd "$1" 2>/dev/null) == *libc.so.6* ]]; then
    echo "libc6 (>= $(getconf GNU_LIBC_VERSION | cut -d' ' -f2))"
  fi
}

# package PROGRAM SHORT-DESCRIPTION FIELDS: builds coracle-PROGRAM. FIELDS are more lines of the control file.
package() {
  local program=$1 short=$2 fields=$3 name=coracle-$1 unit=coracle-$1.service root=$STAGE/$1 libraries script
  install -D -m 755 "$BINARIES/$program" "$root/usr/bin/$program"
  # Debug information is of no use on a node.
  strip --strip-unneeded "$root/usr/bin/$program" 2>/dev/null || true
  install -D -m 644 "packaging/$program/$unit" "$root/usr/lib/systemd/system/$unit"
  install -D -m 644 "packaging/$program/$program.yaml" "$root/etc/coracle/$program.yaml"
  [ "$program" != kubelet ] || install -d -m 755 "$root/etc/coracle/manifests"
  "$BINARIES/command-pages" "$program" "$root"
  find "$root/usr/share/man" -type f -exec gzip --best --no-name {} +
  documents "$root/usr/share/doc/$name" "$name"
  # The mode of created directories must not follow the umask of this shell.
  find "$root" -type d -exec chmod 755 {} +
  find "$root/usr/share" -type f -exec chmod 644 {} +
  libraries=$(c_library "$root/usr/bin/$program")

  mkdir "$root/DEBIAN"
  {
    printf '%s\n' "Package: $name" "Version: $VERSION" "Architecture: $ARCHITECTURE" "Maintainer: $MAINTAINER" \
      "Section: admin" "Priority: optional" "Installed-Size: $(du -sk --apparent-size "$root" | cut -f1)" \
      "Depends: init-system-helpers (>= 1.54)${libraries:+, $libraries}"
    printf '%s\n' "$fields" "Description: $short" \
      " Coracle is a Kubernetes-compatible node agent (kubelet) and a small control plane (master)."
  } >"$root/DEBIAN/control"
  echo "/etc/coracle/$program.yaml" >"$root/DEBIAN/conffiles"
  for script in postinst prerm; do
    sed "s/@UNIT@/$unit/g" "packaging/$script.in" >"$root/DEBIAN/$script"
  done
  cp "packaging/$program/postrm" "$root/DEBIAN/postrm"
  chmod 755 "$root"/DEBIAN/p*
  (cd "$root" && find etc usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  dpkg-deb --root-owner-group -Z"$COMPRESSION" --build "$root" "$OUTPUT/${name}_${VERSION}_$ARCHITECTURE.deb" >/dev/null
  say "built $OUTPUT/${name}_${VERSION}_$ARCHITECTURE.deb, $(stat --format %s "$OUTPUT/${name}_${VERSION}_$ARCHITECTURE.deb" | numfmt --to=iec)"
}

# documents DIRECTORY PACKAGE: the licence, and the changelog in the format of Debian.
documents() {
  mkdir -p "$1"
  {
    echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    echo
    echo "Files: *"
    echo "Copyright: The Coracle contributors"
    echo "License: Apache-2.0"
    echo " On Debian systems, /usr/share/common-licenses/Apache-2.0 has the text."
  } >"$1/copyright"
  printf '%s (%s) stable; urgency=medium\n\n  * CHANGELOG.md of the project lists the changes.\n\n -- %s  %s\n' "$2" "$VERSION" \
    "$MAINTAINER" "$(LC_ALL=C date --utc --date="@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %T +0000')" | gzip --best --no-name >"$1/changelog.gz"
}

mkdir -p "$OUTPUT"
# The kubelet needs an engine, and no particular one: it may also be at another socket.
package kubelet "node agent that runs Kubernetes pods through a Docker engine" "Recommends: docker.io | docker-ce, nftables
Suggests: bash-completion
Conflicts: kubelet
Provides: kubelet
Replaces: kubelet"
package master "small Kubernetes control plane" "Suggests: bash-completion, kubernetes-client"
