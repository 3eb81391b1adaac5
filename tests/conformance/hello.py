"""The ClientHello, with every part of it open to change (RFC 8446 section 4.1.2, RFC 5246 section 7.4.1.2)."""

import copy
import os

CLIENT_HELLO = 1

# Extensions (the IANA registry).
SERVER_NAME, STATUS_REQUEST, GROUPS, POINT_FORMATS, SIGNATURES, HEARTBEAT, ALPN = 0, 5, 10, 11, 13, 15, 16
ENCRYPT_THEN_MAC, EXTENDED_MASTER_SECRET, RECORD_SIZE_LIMIT, TICKET, PRE_SHARED_KEY, EARLY_DATA = 22, 23, 28, 35, 41, 42
VERSIONS, COOKIE, PSK_MODES, KEY_SHARE, RENEGOTIATION_INFO = 43, 44, 45, 51, 0xFF01

# Groups.
SECP256R1, SECP384R1, SECP521R1, X25519, X448, FFDHE2048 = 23, 24, 25, 29, 30, 256

# Cipher suites.
AES_128, AES_256, CHACHA20 = 0x1301, 0x1302, 0x1303
ECDSA_AES_128, ECDSA_AES_256, ECDSA_CHACHA20 = 0xC02B, 0xC02C, 0xCCA9
RSA_AES_128, RSA_AES_256, RSA_CHACHA20 = 0xC02F, 0xC030, 0xCCA8
RENEGOTIATION_SCSV, FALLBACK_SCSV = 0x00FF, 0x5600


def number(value, size):
    return value.to_bytes(size, "big")


def counted(size, content):
    """`content` behind its length in `size` bytes."""
    return number(len(content), size) + content


def words(*values):
    """A counted list of numbers of two bytes."""
    return counted(2, b"".join(number(value, 2) for value in values))


def versions(*values):
    return counted(1, b"".join(number(value, 2) for value in values))


def shares(*entries):
    """The content of a key_share extension with these groups and public values."""
    return counted(2, b"".join(number(group, 2) + counted(2, public) for group, public in entries))


def message(kind, body):
    """A handshake message."""
    return number(kind, 1) + counted(3, body)


class Hello:
    """A ClientHello; `extensions` are pairs of number and content, in order."""

    def __init__(self, suites, extensions):
        self.legacy_version = 0x0303
        self.random = os.urandom(32)
        self.session_id = b""
        self.suites = list(suites)
        self.compressions = b"\0"
        self.extensions = list(extensions)

    def put(self, extension, content):
        """A copy with this content of this extension, where it stands or at the end."""
        changed = copy.deepcopy(self)
        at = [number for number, _ in self.extensions]
        if extension in at:
            changed.extensions[at.index(extension)] = (extension, content)
        else:
            changed.extensions.append((extension, content))
        return changed

    def without(self, *extensions):
        changed = copy.deepcopy(self)
        changed.extensions = [(number, content) for number, content in self.extensions if number not in extensions]
        return changed

    def having(self, **parts):
        """A copy with other parts, by the names of the attributes."""
        changed = copy.deepcopy(self)
        for part, value in parts.items():
            assert hasattr(changed, part)
            setattr(changed, part, value)
        return changed

    def has(self, extension):
        return any(number == extension for number, _ in self.extensions)

    def head(self):
        """The body in front of the extensions."""
        return (
            number(self.legacy_version, 2)
            + self.random
            + counted(1, self.session_id)
            + words(*self.suites)
            + counted(1, self.compressions)
        )

    def body(self):
        extensions = b"".join(number(kind, 2) + counted(2, content) for kind, content in self.extensions)
        return self.head() + counted(2, extensions)

    def message(self):
        return message(CLIENT_HELLO, self.body())


def tls13(*entries):
    """A hello of TLS 1.3 with these key shares."""
    return Hello(
        [AES_128, AES_256, CHACHA20],
        [
            (SERVER_NAME, counted(2, b"\0" + counted(2, b"localhost"))),
            (VERSIONS, versions(0x0304)),
            (GROUPS, words(X25519, SECP256R1, SECP384R1)),
            # ECDSA with P-256, P-384; RSA-PSS; Ed25519.
            (SIGNATURES, words(0x0403, 0x0503, 0x0804, 0x0807)),
            (KEY_SHARE, shares(*entries)),
            (PSK_MODES, counted(1, b"\1")),
        ],
    )


def tls12():
    """A hello of TLS 1.2."""
    return Hello(
        [ECDSA_AES_128, RSA_AES_128],
        [
            (SERVER_NAME, counted(2, b"\0" + counted(2, b"localhost"))),
            (GROUPS, words(X25519, SECP256R1, SECP384R1)),
            (POINT_FORMATS, counted(1, b"\0")),
            (SIGNATURES, words(0x0403, 0x0503, 0x0804, 0x0807)),
            (EXTENDED_MASTER_SECRET, b""),
            (RENEGOTIATION_INFO, b"\0"),
            (TICKET, b""),
        ],
    )
