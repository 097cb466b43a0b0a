#!/usr/bin/env bash
# Passes the tests: installs what they need, builds, and runs every one of them.
# Usage: ./test.sh            everything
#        ./test.sh NAME…      only tests whose name contains NAME
set -euo pipefail
cd "$(dirname "$0")"

# The examples are tests too, and some of them are Python programs, each with a virtual environment of its own.
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3 python3-venv >/dev/null
    else
        echo "test.sh: python3 with venv is needed; install it with: sudo apt-get install python3 python3-venv" >&2
        exit 1
    fi
fi

# The dashboard is looked at in a real browser.
if ! command -v chromedriver >/dev/null || ! command -v chromium >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver >/dev/null
    else
        echo "test.sh: chromium and its driver are needed; install them with: sudo apt-get install chromium chromium-driver" >&2
        exit 1
    fi
fi

cargo build --workspace --all-targets --locked
# Whoever runs this in the background of a script, or by nohup, has signals ignored, and so would have the commands that
# tests interrupt.
env --default-signal=INT,QUIT,HUP cargo test --workspace --locked --no-fail-fast -- "$@"
