#!/bin/sh
# Names the phase of a make run that begins now, and says how long each took when asked.
#
#   scripts/phase.sh NAME        print the phase, and note its start
#   scripts/phase.sh --summary   print the time of each phase that was noted, and forget them
set -eu

notes="$(cd "$(dirname "$0")/.." && pwd)/target/phases"
mkdir -p "$(dirname "$notes")"
now=$(date +%s)
if [ "$1" != --summary ]; then
    printf '== %s\n' "$1"
    # One write below the size of a page, so that two makes at once do not mix their lines.
    printf '%s %s\n' "$now" "$1" >>"$notes"
    exit 0
fi
[ -e "$notes" ] || exit 0
echo 'time by phase:'
awk -v now="$now" '
    function show() { if (name != "") printf "%7d s %s\n", $1 - start, name }
    { show(); start = $1; name = substr($0, index($0, " ") + 1) }
    END { $1 = now; show() }
' "$notes"
rm -f "$notes"
