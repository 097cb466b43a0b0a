#!/usr/bin/env bash
# Measures `halfopen serve` beside the proxies people know, in one run, and says which targets it meets.
#
#   bench/gateway/run.sh [REPETITIONS] [--seconds N] [--growth N] [--only NAME,NAME] [--peer 'NAME=COMMAND']
#   bench/gateway/run.sh --help
#
# Tables on stdout, progress on stderr. As root everything runs in a network namespace of its own with nothing but its
# loopback; otherwise on the loopback of the machine, which is said. What it wants to be installed:
#
#   sudo apt-get install wrk nginx haproxy caddy
set -euo pipefail
cd "$(dirname "$0")/../.."

nice cargo build --release --locked --quiet
# Built apart: together, the features that the bench's programs want of their libraries would be those of halfopen too.
nice cargo build --release --locked --quiet -p halfopen-bench --bins
harness=${CARGO_TARGET_DIR:-target}/release/gateway

if [ "$(id -u)" = 0 ] && command -v ip >/dev/null && unshare -n true 2>/dev/null; then
    exec unshare -n sh -c 'ip link set lo up && exec "$@"' sh "$harness" "$@"
fi
echo "run.sh: no network namespace of its own (that needs root); measuring on the machine's loopback" >&2
exec "$harness" "$@"
