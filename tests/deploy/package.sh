#!/usr/bin/env bash
# Installs the Debian package of a binary into a folder of its own, starts what was installed, upgrades it and purges it.
#
#   tests/deploy/package.sh BINARY
#
# As root, since dpkg installs for no other; nothing outside of the folder changes.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=$(realpath "$1")

fail() {
    printf 'tests/deploy/package.sh: %s\n' "$*" >&2
    exit 1
}

scratch=$(mktemp -d)
pid=''
clean_up() {
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    rm -rf "$scratch"
}
trap clean_up EXIT
chmod 755 "$scratch"
root=$scratch/root
mkdir -p "$root/var/lib/dpkg"/{updates,info,triggers} "$root/etc"
touch "$root/var/lib/dpkg/status"
# What systemd-sysusers adds to.
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"

in_root() {
    dpkg --root="$root" --log=/dev/null --force-script-chrootless --force-depends --force-confold "$@" \
        >"$scratch/dpkg.log" 2>&1 || { cat "$scratch/dpkg.log" >&2; fail "dpkg $*"; }
}

one=$(deploy/package.sh --binary "$binary" --version 0.1.0-1 --out "$scratch")
two=$(deploy/package.sh --binary "$binary" --version 0.1.0-2 --out "$scratch")

# --- installed --------------------------------------------------------------------------------------------------

in_root --install "$one"
for path in usr/bin/ringwall etc/ringwall/ringwall.toml usr/lib/systemd/system/ringwall.service \
    usr/lib/systemd/system/ringwall.socket usr/lib/sysusers.d/ringwall.conf usr/lib/tmpfiles.d/ringwall.conf \
    usr/share/man/man1/ringwall.1.gz usr/share/bash-completion/completions/ringwall \
    usr/share/zsh/vendor-completions/_ringwall usr/share/fish/vendor_completions.d/ringwall.fish \
    usr/share/doc/ringwall/copyright usr/share/doc/ringwall/changelog.Debian.gz usr/share/doc/ringwall/ringwall.toml \
    usr/share/doc/ringwall/deploy/seccomp.json usr/share/doc/ringwall/deploy/README.md; do
    [ -s "$root/$path" ] || fail "the package lacks $path"
done
if command -v systemd-sysusers >/dev/null; then
    grep -q '^ringwall:' "$root/etc/passwd" || fail "no user was made"
    [ "$(stat -c %a "$root/etc/ringwall")" = 750 ] || fail "everybody may look into /etc/ringwall"
    [ "$(stat -c %g "$root/etc/ringwall")" = "$(sed -n 's/^ringwall:x:\([0-9]*\):.*/\1/p' "$root/etc/group")" ] ||
        fail "ringwall's group may not look into /etc/ringwall"
fi
(cd "$root" && md5sum --quiet --check var/lib/dpkg/info/ringwall.md5sums)
[ -z "$(find "$root/usr" "$root/etc/ringwall" -perm /022 -not -type l)" ] || fail "files that others may write"
bash -n "$root/usr/share/bash-completion/completions/ringwall"

# --- started ----------------------------------------------------------------------------------------------------

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost \
    -keyout "$root/etc/ringwall/server.key" -out "$root/etc/ringwall/server.crt" 2>/dev/null
sed -i 's/127.0.0.1:6380/127.0.0.1:0/' "$root/etc/ringwall/ringwall.toml"
# The unit's own command lines, in the folder.
command_of() {
    sed -n "s#^$1=##p" "$root/usr/lib/systemd/system/ringwall.service" | sed -E "s#(^| )/#\1$root/#g"
}
eval "$(command_of ExecStartPre)" >/dev/null || fail "the installed configuration is not valid"
mkfifo "$scratch/log"
read -ra start <<<"$(command_of ExecStart)"
"${start[@]}" 2>"$scratch/log" &
pid=$!
grep -m 1 -q ' started version=' "$scratch/log" || fail "what was installed does not start"
kill "$pid"
wait "$pid" || fail "what was installed does not end well"
pid=''

# --- upgraded, removed, purged ----------------------------------------------------------------------------------

in_root --install "$two"
grep -q '127.0.0.1:0' "$root/etc/ringwall/ringwall.toml" || fail "an upgrade has overwritten the configuration"
in_root --remove ringwall
[ ! -e "$root/usr/bin/ringwall" ] || fail "a removal has left the program"
[ -e "$root/etc/ringwall/ringwall.toml" ] || fail "a removal has taken the configuration"
in_root --purge ringwall
[ ! -e "$root/etc/ringwall/ringwall.toml" ] || fail "a purge has left the configuration"
[ -e "$root/etc/ringwall/server.key" ] || fail "a purge has taken a key that is not the package's"

if command -v lintian >/dev/null; then
    # Who answers for it is not settled before it is published, and no part of debhelper writes its scripts.
    lintian --allow-root --fail-on error --suppress-tags \
        bogus-mail-host,bogus-mail-host-in-debian-changelog,root-in-contact,maintainer-script-calls-systemctl "$two"
fi
echo "package: installed, started, upgraded, removed, purged"
