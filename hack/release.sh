#!/usr/bin/env bash
# Builds a release into target/dist/coracle-VERSION-TARGET: static binaries of kubelet and master, an SBOM of each in CycloneDX
# format, the licence, and SHA256SUMS over all of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PROGRAMS=(kubelet master)

say() { echo "release: $*"; }
die() { echo "release: $*" >&2; exit 1; }

hack/setup.sh release
VERSION=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
TARGET=$(rustc --print host-tuple)
TARGET_DIR=${CARGO_TARGET_DIR:-target}
DIST=$TARGET_DIR/dist/coracle-$VERSION-$TARGET
# The build time in /version and in the SBOMs is that of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

make --no-print-directory static PROFILE=dist BINS="${PROGRAMS[*]}"
rm -rf "$DIST" && mkdir -p "$DIST"
cp LICENSE "$DIST"
# It writes a file beside the manifest of each package of the workspace.
cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$TARGET" --no-build-deps
for program in "${PROGRAMS[@]}"; do
  file=$DIST/$program
  cp "$TARGET_DIR/$TARGET/dist/$program" "$file"
  [ "$(LC_ALL=C ldd "$file" 2>&1 | grep -c '=>')" = 0 ] || die "$file is not static: ldd shows what it loads"
  mv "$program/$program.cdx.json" "$DIST"
done
rm -f -- */*.cdx.json
(cd "$DIST" && sha256sum LICENSE "${PROGRAMS[@]}" "${PROGRAMS[@]/%/.cdx.json}" >SHA256SUMS)
say "built $DIST:"
(cd "$DIST" && stat --format '%n %s' -- *) | numfmt --field 2 --to=iec | sed 's/^/  /'
