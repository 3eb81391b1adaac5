"""Whole conversations of tlslite-ng's own client, which checks the server's signatures, keys and order: every version,
cipher suite, group, signature and kind of key that both sides have."""

import socket

from tlslite.api import HandshakeSettings, TLSConnection
from tlslite.constants import CipherSuite, GroupName, SignatureScheme

from case import Group
from peer import PING, PONG
from process import PATIENCE

group = Group()
case = group.case
TLS12, TLS13 = (3, 3), (3, 4)
SECTIONS = {TLS12: "RFC 5246 7.3", TLS13: "RFC 8446 2"}
NAMES = {TLS12: "tls12", TLS13: "tls13"}


class Client:
    """tlslite-ng's client, in the place of a [`Peer`]."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.connection = TLSConnection(self.socket)
        self.wire = self
        self.port = self.socket.getsockname()[1]

    def close(self):
        self.socket.close()

    def converse(self, **wants):
        """A handshake with these settings, two requests, and an end in good order; what was agreed on."""
        settings = HandshakeSettings()
        for want, value in wants.items():
            assert hasattr(settings, want)
            setattr(settings, want, value)
        self.connection.handshakeClientCert(settings=settings, serverName="localhost")
        # More than one record has room for.
        value = b"$20000\r\n" + 20000 * b"e" + b"\r\n"
        for request, reply in ((PING, PONG), (b"*2\r\n$4\r\nECHO\r\n" + value, value)):
            self.connection.sendall(request)
            received = b""
            while len(received) < len(reply):
                received += self.connection.recv(1 << 16)
            assert received == reply
        self.connection.closeSocket = False
        self.connection.close()
        return self.connection


def client(world, listener="public"):
    return world.enter(Client, listener)


SUITES = (
    (TLS13, "public", "aes128gcm", "ecdhe_ecdsa", "TLS_AES_128_GCM_SHA256"),
    (TLS13, "public", "aes256gcm", "ecdhe_ecdsa", "TLS_AES_256_GCM_SHA384"),
    (TLS13, "public", "chacha20-poly1305", "ecdhe_ecdsa", "TLS_CHACHA20_POLY1305_SHA256"),
    (TLS12, "public", "aes128gcm", "ecdhe_ecdsa", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    (TLS12, "public", "aes256gcm", "ecdhe_ecdsa", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    (TLS12, "public", "chacha20-poly1305", "ecdhe_ecdsa", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    (TLS12, "rsa", "aes128gcm", "ecdhe_rsa", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    (TLS12, "rsa", "aes256gcm", "ecdhe_rsa", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    (TLS12, "rsa", "chacha20-poly1305", "ecdhe_rsa", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
)
for version, listener, cipher, exchange, name in SUITES:

    @case(SECTIONS[version], f"{name}", name, "client_closed")
    def suite(world, version=version, listener=listener, cipher=cipher, exchange=exchange):
        connection = client(world, listener).converse(
            minVersion=version,
            maxVersion=version,
            cipherNames=[cipher],
            keyExchangeNames=[exchange],
            eccCurves=["x25519", "secp256r1"],
            keyShares=["x25519"],
        )
        return CipherSuite.ietfNames[connection.session.cipherSuite]


GROUPS = (
    (TLS13, "x25519mlkem768"),
    (TLS13, "secp256r1mlkem768"),
    (TLS13, "x25519"),
    (TLS13, "secp256r1"),
    (TLS13, "secp384r1"),
    (TLS12, "x25519"),
    (TLS12, "secp256r1"),
    (TLS12, "secp384r1"),
)
for version, name in GROUPS:

    @case(SECTIONS[version], f"{NAMES[version]}: {name}", name, "client_closed")
    def exchange(world, version=version, name=name):
        connection = client(world, "groups").converse(
            minVersion=version,
            maxVersion=version,
            eccCurves=[name, "secp256r1"],
            keyShares=[name] if version == TLS13 else [],
        )
        return GroupName.toRepr(connection.ecdhCurve)


@case("RFC 8446 4.1.4", "no share is shown, and the post-quantum one is asked for", "x25519mlkem768", "client_closed")
def preferred(world):
    connection = client(world).converse(
        minVersion=TLS13, maxVersion=TLS13, eccCurves=["x25519mlkem768", "x25519", "secp256r1"], keyShares=[]
    )
    return GroupName.toRepr(connection.ecdhCurve)


SIGNATURES = (
    (TLS13, "public", "ecdsa_secp256r1_sha256"),
    (TLS13, "p384", "ecdsa_secp384r1_sha384"),
    (TLS13, "ed25519", "ed25519"),
    (TLS12, "public", "ecdsa_secp256r1_sha256"),
    (TLS12, "p384", "ecdsa_secp384r1_sha384"),
    (TLS12, "ed25519", "ed25519"),
)
for version, listener, name in SIGNATURES:

    @case(SECTIONS[version], f"{NAMES[version]}: a signature of {name}", name, "client_closed")
    def signature(world, version=version, listener=listener):
        connection = client(world, listener).converse(
            minVersion=version, maxVersion=version, keyShares=["x25519"], eccCurves=["x25519", "secp256r1", "secp384r1"]
        )
        return SignatureScheme.toRepr(connection.serverSigAlg)


for version in (TLS13, TLS12):
    for padding in ("pss", "pkcs1"):
        for size in ("sha256", "sha384", "sha512"):
            if (version, padding) == (TLS13, "pkcs1"):
                continue
            name = f"rsa_pss_rsae_{size}" if padding == "pss" else f"rsa_pkcs1_{size}"

            @case(SECTIONS[version], f"{NAMES[version]}: a signature of {name}", name, "client_closed")
            def rsa(world, version=version, padding=padding, size=size):
                connection = client(world, "both").converse(
                    minVersion=version,
                    maxVersion=version,
                    rsaSchemes=[padding],
                    rsaSigHashes=[size],
                    ecdsaSigHashes=[],
                    more_sig_schemes=[],
                    keyExchangeNames=["ecdhe_rsa"],
                    keyShares=["x25519"],
                )
                return SignatureScheme.toRepr(connection.serverSigAlg)


@case("RFC 8446 4.2.3", "a listener with both kinds of keys prefers ECDSA", "ecdsa_secp256r1_sha256", "client_closed")
def both(world):
    return SignatureScheme.toRepr(client(world, "both").converse(keyShares=["x25519"]).serverSigAlg)


@case("RFC 8446 4.2.1", "with all that the library knows, TLS 1.3 is spoken", "TLS_AES_128_GCM_SHA256", "client_closed")
def defaults(world):
    return CipherSuite.ietfNames[client(world).converse().session.cipherSuite]
