#!/bin/sh
# Checks Cargo.lock against the RustSec advisory database with cargo-deny.
#
# Where the tool or the database cannot be had it reports what was not checked and succeeds: a build without a network is not a
# vulnerability. An advisory that applies fails.
#
# scripts/setup.sh does not install cargo-deny: building it takes minutes, and the database comes from github.com, which machines
# that reach package registries only do not reach either. The rest of deny.toml (licences, sources, duplicates) is checked by
# `cargo xtask tidy` everywhere.
set -u

# Reports what was not checked, why, and how a person can check it.
report_unchecked() {
    echo "advisories: NOT CHECKED: $1"
    echo 'advisories: no version in Cargo.lock was compared with known vulnerabilities (RustSec); licences, sources and duplicates are checked by cargo xtask tidy'
    echo 'advisories: to check, on a machine that reaches crates.io and github.com: cargo install --locked cargo-deny && make advisories'
}

# How long the database may take to download, in seconds.
limit=${RDD_ADVISORIES_TIMEOUT:-30}

if ! cargo deny --version >/dev/null 2>&1; then
    report_unchecked 'cargo-deny is not installed'
    exit 0
fi
if ! fetched=$(timeout "$limit" cargo deny fetch db 2>&1); then
    report_unchecked "the advisory database could not be fetched within $limit s"
    printf '%s\n' "$fetched" | tail -n 3
    exit 0
fi
if ! timeout 120 cargo deny --offline check advisories; then
    echo 'advisories: FAILED: see above; update the package, or add the advisory to deny.toml with a reason'
    exit 1
fi
echo 'advisories: none applies'
