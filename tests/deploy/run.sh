#!/usr/bin/env bash
# Checks what deploy/ has for those who run ringwall: units, the filters of the unit and of the container profile with the
# program under them, the Kubernetes example, the Debian package.
#
#   tests/deploy/run.sh BINARY
#
# Says what it cannot check for want of a tool. tests/run.sh installs them.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=$(realpath "$1")
mkdir -p target/deploy

fail() {
    printf 'tests/deploy/run.sh: %s\n' "$*" >&2
    exit 1
}

units() {
    # The unit names an installed binary; this one does for the check of everything else.
    sed "s|/usr/bin/ringwall|$binary|" deploy/ringwall.service >target/deploy/ringwall.service
    cp deploy/ringwall.socket target/deploy/
    local said
    said=$(systemd-analyze verify --man=no target/deploy/ringwall.service target/deploy/ringwall.socket 2>&1)
    # Verified with all units of the machine, of which others may be odd.
    ! grep 'ringwall' <<<"$said" || fail "systemd-analyze verify is not content"
    # In tenths: 2.0 at most.
    systemd-analyze security --no-pager --offline=true --threshold=20 target/deploy/ringwall.service |
        tail -n 1
}

# The black-box tests that touch most of the program, with the program under the filters of a file.
under_filters() {
    local confine="/usr/bin/python3 $PWD/tests/deploy/confine.py $PWD/$1"
    # Root may do this without a filter.
    ! $confine /usr/bin/python3 -c 'import os; os.chroot("/")' 2>/dev/null || fail "$1: the filter does not bite"
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$confine" "$binary" >target/deploy/confined
    chmod +x target/deploy/confined
    RINGWALL_BINARY=$PWD/target/deploy/confined cargo test --quiet --profile checks --test blackbox -- \
        drain:: listeners_and_servers:: orderly_ends:: reload::sessions tls_servers::
    # 2: root, or a short queue. It is not that it cannot start.
    local code=0
    target/deploy/confined doctor >target/deploy/doctor.log || code=$?
    [ $code -ne 1 ] || { cat target/deploy/doctor.log; fail "$1: it cannot start under the filter"; }
}

# The configuration in the example is one that is taken.
kubernetes() {
    local folder=target/deploy/kubernetes
    mkdir -p $folder
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost \
        -keyout $folder/tls.key -out $folder/tls.crt 2>/dev/null
    chmod 640 $folder/tls.key
    /usr/bin/python3 -c '
import sys, yaml
documents = list(yaml.safe_load_all(open("deploy/kubernetes-sidecar.yml", encoding="utf-8")))
assert [document["kind"] for document in documents] == ["ConfigMap", "StatefulSet", "Service"]
sys.stdout.write(documents[0]["data"]["ringwall.toml"])' | sed "s|/run/secrets/tls|$PWD/$folder|g" >$folder/ringwall.toml
    "$binary" check --config $folder/ringwall.toml >/dev/null
}

if command -v systemd-analyze >/dev/null; then
    units
else
    echo "no systemd-analyze here: the units are not checked"
fi
if /usr/bin/python3 -c 'import seccomp, yaml' 2>/dev/null; then
    if command -v systemd-analyze >/dev/null; then under_filters deploy/ringwall.service; fi
    under_filters deploy/seccomp.json
    kubernetes
else
    echo "no python3-seccomp or python3-yaml here: nothing has run under filters, and the example is not checked"
fi
if command -v dpkg >/dev/null && [ "$(id -u)" -eq 0 ]; then
    tests/deploy/package.sh "$binary"
else
    echo "no dpkg here, or not root: the package is not installed"
fi
