#!/usr/bin/env bash
# Makes a Debian package of a built ringwall, with nothing but dpkg and binutils.
#
#   deploy/package.sh                       builds the release binary and packs it into target/package
#   deploy/package.sh --binary FILE         packs this one
#   deploy/package.sh --version VERSION     the package's version (default: the crate's, -1)
#   deploy/package.sh --out FOLDER          where the package goes
#
# MAINTAINER="Name <address>" says who answers for the package. Prints the path of the package.
set -euo pipefail
cd "$(dirname "$0")/.."

binary='' out=target/package version=''
while [ $# -gt 0 ]; do
    case "$1" in
        --binary) binary=$2 ;;
        --version) version=$2 ;;
        --out) out=$2 ;;
        *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift 2
done

if [ -z "$binary" ]; then
    cargo build --release --locked --quiet
    binary=${CARGO_TARGET_DIR:-target}/release/ringwall
fi
[ -n "$version" ] || version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)-1
maintainer=${MAINTAINER:-ringwall <root@localhost>}
architecture=$(dpkg --print-architecture)

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# What is made here is readable by all, whatever the umask of whoever makes it.
umask 022
chmod 755 "$root"

# Puts a file into the package: mode, source, path.
put() {
    install -D -m "$1" "$2" "$root/$3"
}

# Puts what a command writes into the package: path, command...
write() {
    mkdir -p "$(dirname "$root/$1")"
    "${@:2}" >"$root/$1"
}

put 755 "$binary" usr/bin/ringwall
strip --strip-unneeded "$root/usr/bin/ringwall"
put 644 config/minimal.toml etc/ringwall/ringwall.toml
put 644 deploy/ringwall.service usr/lib/systemd/system/ringwall.service
put 644 deploy/ringwall.socket usr/lib/systemd/system/ringwall.socket
put 644 deploy/sysusers.conf usr/lib/sysusers.d/ringwall.conf
put 644 deploy/tmpfiles.conf usr/lib/tmpfiles.d/ringwall.conf

doc=usr/share/doc/ringwall
put 644 config/ringwall.toml $doc/ringwall.toml
put 644 README.md $doc/README.md
put 644 deploy/README.md $doc/deploy/README.md
put 644 deploy/seccomp.json $doc/deploy/seccomp.json
put 644 deploy/kubernetes-sidecar.yml $doc/deploy/kubernetes-sidecar.yml
put 644 deploy/ringwall.service.d/notify-reload.conf $doc/deploy/ringwall.service.d/notify-reload.conf
write $doc/changelog.gz gzip -9nc CHANGELOG.md
write $doc/changelog.Debian.gz gzip -9nc <<CHANGES
ringwall ($version) unstable; urgency=medium

  * changelog.gz says what has changed.

 -- $maintainer  $(date --rfc-email --date="@${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}")
CHANGES
put 644 deploy/debian/copyright $doc/copyright

"$binary" man | gzip -9nc >"$root/ringwall.1.gz"
put 644 "$root/ringwall.1.gz" usr/share/man/man1/ringwall.1.gz
rm "$root/ringwall.1.gz"
write usr/share/bash-completion/completions/ringwall "$binary" completions bash
write usr/share/zsh/vendor-completions/_ringwall "$binary" completions zsh
write usr/share/fish/vendor_completions.d/ringwall.fish "$binary" completions fish

# The oldest C library that has all that the binary calls.
libc=$(objdump -T "$root/usr/bin/ringwall" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
size=$(du -sk --apparent-size "$root" | cut -f 1)
mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<CONTROL
Package: ringwall
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $size
Depends: libc6 (>= $libc), libgcc-s1
Recommends: systemd
Section: net
Priority: optional
Description: TLS-terminating proxy for Valkey and Redis on io_uring
 ringwall terminates TLS in front of Valkey and Redis servers, or speaks TLS to
 them, and relays every command unchanged. It reloads certificates without
 dropping a connection, holds storms of handshakes back, and authenticates
 clients by certificate.
 .
 It needs Linux 6.1 or later, with io_uring allowed: "ringwall doctor" tells.
CONTROL
echo /etc/ringwall/ringwall.toml >"$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    put 755 "deploy/debian/$script" "DEBIAN/$script"
done
(cd "$root" && find etc usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

mkdir -p "$out"
package=$out/ringwall_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz -z2 --build "$root" "$package" >/dev/null
echo "$package"
