#!/usr/bin/env bash
# Checks dependencies: bans, licenses and sources always; advisories whenever their database can be had.
set -euo pipefail

cargo deny --log-level error check bans licenses sources

if fetched=$(cargo deny --log-level error fetch db 2>&1); then
  cargo deny --log-level error check --disable-fetch advisories
else
  echo "deny: advisories NOT checked: $(grep -o -m 1 'failed to fetch.*\|[Ee]rror.*' <<<"$fetched" | cut -c1-160)"
fi
