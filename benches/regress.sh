#!/usr/bin/env bash
# Compares the instructions of each part of the data path with benches/baseline, and fails where there are more than its
# tolerance allows.
#
#   benches/regress.sh             compare
#   benches/regress.sh --record    write the baseline anew
#
# Needs valgrind. Built with the checks profile, as the tests are.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:---compare}" in
--compare) option=--baseline ;;
--record) option=--record ;;
*)
    echo "benches/regress.sh: unknown option $1; there is --record" >&2
    exit 2
    ;;
esac
command -v valgrind >/dev/null || {
    echo "benches/regress.sh: valgrind is missing; install it (apt-get install valgrind) and try again" >&2
    exit 1
}
exec cargo bench --profile checks --bench micro -- $option "$PWD/benches/baseline"
