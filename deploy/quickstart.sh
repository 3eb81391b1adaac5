#!/usr/bin/env bash
# From a checkout to a working ringwall in front of a real Redis or Valkey, on ports and sockets of its own.
#
#   deploy/quickstart.sh          builds, starts, checks, prints how to connect, stays up until Ctrl-C
#   deploy/quickstart.sh --once   the same, but ends after the check; the exit code tells how it went
#
# Missing tools are installed with apt-get where that exists. Everything else it makes lies in one scratch folder,
# which is removed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

once=no
case "${1:-}" in
    "") ;;
    --once) once=yes ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

say() {
    printf '\n-- %s\n' "$*"
}

fail() {
    printf '\nquickstart: %s\n' "$*" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# --- what is missing ---------------------------------------------------------------------------------------------

rust_min=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# Whether the first of two dotted versions is not older than the second.
not_older() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

rust_fits() {
    have cargo && have rustc && not_older "$(rustc --version | cut -d ' ' -f 2)" "$rust_min"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

apt_updated=no
apt_install() {
    [ $apt_updated = yes ] || as_root apt-get update -qq
    apt_updated=yes
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-remove "$@" >/dev/null
}

# The version apt-get would install, empty when there is none.
apt_candidate() {
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9][^+~-]*\).*/\1/p'
}

# Debian's rustc may be too old; a newer one then goes by another name (rustc-web, rustc-1.88).
apt_install_rust() {
    as_root apt-get update -qq
    apt_updated=yes
    local name suffix
    for name in rustc rustc-web $(apt-cache search --names-only '^rustc-[0-9.]+$' | cut -d ' ' -f 1 | sort -Vr); do
        suffix=${name#rustc}
        if not_older "$(apt_candidate "$name")" "$rust_min" && [ -n "$(apt_candidate "cargo$suffix")" ]; then
            say "installing $name and cargo$suffix"
            apt_install "$name" "cargo$suffix"
            PATH="/usr/lib/rust${suffix}/bin:$PATH"
            return
        fi
    done
    return 1
}

# Sets server and cli to a pair that is installed and speaks TLS.
find_server() {
    local name help
    for name in valkey redis; do
        if ! have $name-server || ! have $name-cli; then continue; fi
        # Some versions end their help with an exit code.
        help=$($name-cli --help 2>&1) || true
        if [[ $help == *"--tls "* ]]; then
            server=$name-server cli=$name-cli
            return
        fi
    done
    return 1
}

# The package also starts a server of its own on the standard port, which nobody here asked for.
apt_install_server() {
    apt_install redis-server
    if have systemctl && systemctl is-active --quiet redis-server 2>/dev/null; then
        as_root systemctl disable --now redis-server >/dev/null 2>&1
    fi
}

if have apt-get; then
    have cc || { say "installing a C compiler"; apt_install gcc libc6-dev; }
    have openssl || { say "installing openssl"; apt_install openssl; }
    find_server || { say "installing redis-server"; apt_install_server; }
    rust_fits || apt_install_rust || true
fi
missing=()
have cc || missing+=("a C compiler (gcc or clang)")
have openssl || missing+=("openssl")
find_server || missing+=("valkey-server and valkey-cli, or redis-server and redis-cli, built with TLS")
rust_fits || missing+=("Rust $rust_min or later, with cargo (https://rustup.rs)")
if [ ${#missing[@]} -gt 0 ]; then
    printf 'quickstart: please install, then run this again:\n' >&2
    printf '  - %s\n' "${missing[@]}" >&2
    exit 1
fi

say "building the release binary (the first time takes some minutes)"
cargo build --release --locked --quiet
ringwall=${CARGO_TARGET_DIR:-target}/release/ringwall

# --- a scratch folder, and what ends with this script -------------------------------------------------------------

scratch=$(mktemp -d)
server_pid='' ringwall_pid=''
clean_up() {
    # ringwall first, so that it drains its sessions while the server still answers.
    for pid in $ringwall_pid $server_pid; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 0' INT
trap 'exit 143' TERM

say "making a CA and a certificate for localhost in $scratch"
(
    cd "$scratch"
    openssl ecparam -name prime256v1 -genkey -noout -out ca.key
    openssl req -x509 -new -key ca.key -days 30 -subj "/CN=ringwall quickstart CA" -out ca.crt \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign"
    openssl ecparam -name prime256v1 -genkey -noout -out server.key
    openssl req -new -key server.key -subj "/CN=localhost" -out server.csr
    printf '%s\n' "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1" "extendedKeyUsage=serverAuth" >server.ext
    openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile server.ext \
        -out server.crt
    chmod 600 ca.key server.key
) 2>"$scratch/openssl.log" || { cat "$scratch/openssl.log" >&2; fail "openssl failed"; }

# Reads lines from file descriptor $1 until one matches $2, which is left in $line; shows them only on failure.
wait_for_line() {
    local seen=''
    while IFS= read -r -u "$1" line; do
        seen+="$line"$'\n'
        if [[ $line =~ $2 ]]; then
            return
        fi
    done
    printf '%s' "$seen" >&2
    return 1
}

say "starting $server on a unix socket"
mkfifo "$scratch/server.log" "$scratch/ringwall.log"
# In sessions of their own, so that Ctrl-C reaches this script alone and it can end them in order.
setsid "$server" --port 0 --unixsocket "$scratch/server.sock" --save '' --appendonly no --dir "$scratch" \
    >"$scratch/server.log" 2>&1 &
server_pid=$!
exec 3<"$scratch/server.log"
wait_for_line 3 '[Rr]eady to accept connections' || fail "$server did not start"
cat <&3 >/dev/null &

# Port 0: the kernel picks one that is free, and the log names it.
cat >"$scratch/ringwall.toml" <<TOML
[[listener]]
bind = "127.0.0.1:0"
backend = "local"
tls = { certificate = "server.crt", private_key = "server.key" }

[[backend]]
name = "local"
servers = ["unix:$scratch/server.sock"]
TOML

say "starting ringwall in front of it"
setsid "$ringwall" run --config "$scratch/ringwall.toml" >"$scratch/ringwall.log" 2>&1 &
ringwall_pid=$!
exec 4<"$scratch/ringwall.log"
wait_for_line 4 '127\.0\.0\.1:([1-9][0-9]*)' || fail "ringwall did not start"
[[ $line =~ 127\.0\.0\.1:([1-9][0-9]*) ]]
port=${BASH_REMATCH[1]}
printf '%s\n' "$line"

# --- the check -----------------------------------------------------------------------------------------------------

ask() {
    "$cli" --tls --cacert "$scratch/ca.crt" -h localhost -p "$port" "$@"
}

expect() {
    local wanted=$1 answer
    shift
    answer=$(ask "$@") || fail "$* failed"
    printf '%-28s %s\n' "$*" "$answer"
    [ "$answer" = "$wanted" ] || fail "$* answered '$answer' instead of '$wanted'"
}

say "PING, SET and GET through TLS"
expect PONG PING
expect OK SET greeting "hello through TLS"
expect "hello through TLS" GET greeting

if [ $once = yes ]; then
    say "works"
    exit 0
fi
say "up until Ctrl-C; from another terminal:"
printf '%s --tls --cacert %s -h localhost -p %s\n' "$cli" "$scratch/ca.crt" "$port"
say "ringwall's log"
# In the background, because a trap runs only between commands, and wait is one that a signal interrupts.
cat <&4 &
wait "$ringwall_pid"
