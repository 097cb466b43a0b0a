#!/bin/sh
# Summarises every note of a folder, four agents side by side, and keeps what could not be done for tomorrow.
#
#   examples/nightly-batch.sh                       with the stand-in agent, on examples/notes
#   AGENT='claude -p "Summarise this note"' examples/nightly-batch.sh ~/notes ~/summaries
#
# halfopen is the only change to the loop: the four workers share one circuit, so the first "429, retry after …" holds
# all of them, and the waiting ones start again one by one. A note whose agent could not run tonight (exit code 75)
# leaves no output file behind, so the next night picks it up.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
in=${1:-$here/notes}
out=${2:-$(mktemp -d)}
mkdir -p "$out"

# Without AGENT the stand-in is used. It lives in its own folder and with its own store: nothing of yours is touched.
if [ -z "${AGENT:-}" ]; then
    STAND_IN_DIR=$(mktemp -d)
    export STAND_IN_DIR
    export HALFOPEN_STORE="${HALFOPEN_STORE:-$STAND_IN_DIR/halfopen.db}"
    AGENT="$here/stand-in/agent"
fi
export AGENT

if [ -z "${HALFOPEN:-}" ]; then
    HALFOPEN=$(command -v halfopen || echo "$here/../target/release/halfopen")
fi
[ -x "$HALFOPEN" ] || (cd "$here/.." && cargo build --release --locked)
export HALFOPEN out

find "$in" -maxdepth 1 -name '*.txt' -print0 | sort -z | xargs -0 -P 4 -I NOTE sh -c '
    note=$1
    summary=$out/$(basename "$note" .txt).summary
    [ -e "$summary" ] && exit 0
    # AGENT is a command line, so a shell reads it; halfopen sees the command itself.
    code=0
    eval "\"\$HALFOPEN\" run --dep agent -- $AGENT" <"$note" >"$summary.part" || code=$?
    case $code in
        0) mv "$summary.part" "$summary" ;;
        75) rm -f "$summary.part"; echo "tomorrow: $note" ;;
        *) rm -f "$summary.part"; echo "failed with $code: $note" ;;
    esac' sh NOTE

count() { find "$1" -maxdepth 1 -name "$2" | wc -l; }
echo "done: $(count "$out" '*.summary') of $(count "$in" '*.txt') notes are in $out"
"$HALFOPEN" status
