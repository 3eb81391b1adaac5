#!/usr/bin/env bash
# Everything that must pass, what fails fastest first; stops at the first failure.
#
#   tests/run.sh            install what the tests need, then run everything
#
# Needs a Rust toolchain with rustfmt and clippy. What else is missing is installed with apt-get where that exists;
# the Python and Node.js libraries go to target/clients.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

started=$SECONDS
section() {
    printf '\n== %s (%d s so far)\n' "$1" $((SECONDS - started))
}

fail() {
    printf 'tests/run.sh: %s\n' "$*" >&2
    exit 1
}

# Installs Debian packages.
install() {
    command -v apt-get >/dev/null || fail "missing: $*; install them and try again"
    local sudo=()
    [ "$(id -u)" -eq 0 ] || sudo=(sudo)
    echo "installing $*"
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
        >target/apt.log 2>&1 || { tail -n 30 target/apt.log; fail "apt-get install $* failed"; }
}

# Installs the packages of those commands that are missing: command=package ...
need() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
}

# The libraries for Python: the client, and what the conformance tests speak TLS with. Debian has python3 without its
# venv module.
python_libraries() {
    local python=target/clients/python
    if [ ! -x $python/bin/pip ] && ! python3 -m venv $python >/dev/null 2>&1; then
        install python3-venv
        python3 -m venv --clear $python
    fi
    $python/bin/python -m pip install --quiet --disable-pip-version-check \
        -r tests/clients/requirements.txt -r tests/conformance/requirements.txt
}

# The libraries for Node.js.
node_libraries() {
    local node=target/clients/node
    mkdir -p $node
    cp tests/clients/package.json $node/
    npm install --prefix $node --no-package-lock --no-audit --no-fund --silent
}

section "tools"
mkdir -p target/clients
cargo fmt --version >/dev/null 2>&1 || fail "rustfmt is missing: rustup component add rustfmt"
cargo clippy --version >/dev/null 2>&1 || fail "clippy is missing: rustup component add clippy"
# redis-server is also Sentinel.
need cc=gcc nm=binutils openssl=openssl redis-server=redis-server redis-cli=redis-tools strace=strace valgrind=valgrind haproxy=haproxy \
    tmux=tmux python3=python3 node=nodejs npm=npm shellcheck=shellcheck
python_libraries
node_libraries
# A scanner that not every distribution has; without it the conformance tests say that they do not scan.
command -v sslscan >/dev/null || (install sslscan) || echo "no sslscan here: nothing is scanned"
# What checks units and filters; a machine that has neither systemd's tools nor Debian's libraries says what it leaves out.
command -v systemd-analyze >/dev/null || (install systemd) || echo "no systemd-analyze here: units are not checked"
/usr/bin/python3 -c 'import seccomp, yaml' 2>/dev/null || (install python3-seccomp python3-yaml) ||
    echo "no seccomp for Python here: nothing runs under filters"
# Thousands of sockets are open at once, half of them in the tests themselves.
ulimit -Sn "$(ulimit -Hn)"

section "format"
cargo fmt --check

section "shell scripts"
shellcheck tests/run.sh tests/deploy/*.sh benches/*.sh .ci/run deploy/*.sh deploy/debian/p*

# The checks profile is optimised and keeps debug assertions; one profile for all steps builds the dependencies once.
section "clippy"
cargo clippy --profile checks --all-targets -- -D warnings
cargo clippy --profile checks --features pthread-emulation --lib --test pthread_emulation -- -D warnings

section "style"
cargo test --profile checks --test tidy

section "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --profile checks --no-deps --document-private-items --features pthread-emulation

section "models of the mailbox and of the emulation's lock under loom"
cargo test --profile checks --features loom --test mailbox_loom --test rwlock_loom

section "locks of the C library, emulated"
cargo test --profile checks --features pthread-emulation --test pthread_emulation

section "unit, property, simulation, fuzz smoke and black-box tests"
FUZZ_SECONDS=30 cargo test --profile checks

section "conformance to the TLS standards"
cargo build --profile checks --bin ringwall
target/clients/python/bin/python -B tests/conformance/run.py target/checks/ringwall

section "units, filters, examples and packages"
tests/deploy/run.sh target/checks/ringwall

# Counts only, so that a busy machine does not matter.
section "allocations and system calls of the steady state"
cargo bench --profile checks --bench steady -- --quick

section "instructions of the data path"
benches/regress.sh

section "passed"
