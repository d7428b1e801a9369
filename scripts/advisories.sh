#!/bin/sh
# Checks Cargo.lock against the RustSec advisory database with cargo-deny.
#
# Where the tool or the database cannot be had it says so and succeeds: a build without a network is not a vulnerability.
# An advisory that applies fails.
set -u

# How long the database may take to download, in seconds.
limit=${RDD_ADVISORIES_TIMEOUT:-30}

if ! cargo deny --version >/dev/null 2>&1; then
    echo 'advisories: NOT CHECKED: cargo-deny is not installed (cargo install --locked cargo-deny)'
    exit 0
fi
if ! fetched=$(timeout "$limit" cargo deny fetch db 2>&1); then
    echo "advisories: NOT CHECKED: the advisory database could not be fetched within $limit s"
    printf '%s\n' "$fetched" | tail -n 3
    exit 0
fi
if ! timeout 120 cargo deny --offline check advisories; then
    echo 'advisories: FAILED: see above; update the package, or add the advisory to deny.toml with a reason'
    exit 1
fi
echo 'advisories: none applies'
