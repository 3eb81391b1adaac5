"""Records: their lengths, types and versions (RFC 8446 section 5, RFC 5246 section 6)."""

import hello
from case import Group
from peer import ALERT, APPLICATION_DATA, CLOSE_NOTIFY, HANDSHAKE, PING, RECORD_MAX

group = Group()
case = group.case
BOTH = ("tls13", "tls12")
UNKNOWN_TYPE = "rustls does not parse the record, where all errors are decode_error"
FOREIGN = "rustls tells what is not TLS at all by the major version, and does not parse it"


def connected(world, version):
    return getattr(world, version)().connect()


def echo(size):
    """A request whose record has exactly `size` bytes."""
    value = size - len(b"*2\r\n$4\r\nECHO\r\n$00000\r\n\r\n")
    return b"*2\r\n$4\r\nECHO\r\n$%05d\r\n" % value + b"e" * value + b"\r\n"


def echoed(peer, size):

    received = b""
    while len(received.split(b"\r\n", 1)[-1]) < size - len(b"*2\r\n$4\r\nECHO\r\n$00000\r\n"):
        received += peer.reply()
    return "served" if set(received.split(b"\r\n")[1]) == {ord("e")} else "served wrongly"


def request_record(peer):
    """A record with a request, not sent."""
    peer.wire.hold()
    peer.ask()
    return peer.wire.take()


def in_one_record(peer, size):
    """The outcome of a hello that fills a record of `size` bytes."""
    padding = 21
    peer.hello = peer.hello.put(padding, bytes(size - len(peer.hello.message()) - 4))
    assert len(peer.hello.message()) == size
    peer.send_hello()
    peer.hear_answer()
    return "accepted"


for version in BOTH:

    @case("RFC 8446 5.1, RFC 5246 6.2.1", f"{version}: empty records of application data are passed over", "served")
    def empty_data(world, version=version):
        peer = connected(world, version)
        for _ in range(3):
            peer.ask(b"")
        peer.ask(PING[:5])
        peer.ask(b"")
        peer.ask(PING[5:])
        return peer.outcome()

    # Neither standard bounds them; a server may. ringwall takes 32 in a row.
    @case("RFC 8446 5.1, RFC 5246 6.2.1", f"{version}: 33 empty records in a row", "unexpected_message", "tls_failed")
    def many_empty(world, version=version):
        peer = connected(world, version)
        for _ in range(33):
            peer.ask(b"")
        return peer.served()

    @case("RFC 8446 5.1, RFC 5246 6.2.1", f"{version}: a record with 2^14 bytes of plaintext", "served")
    def full(world, version=version):
        peer = connected(world, version)
        peer.ask(echo(RECORD_MAX))
        return echoed(peer, RECORD_MAX)

    @case(
        "RFC 8446 5.2, RFC 5246 6.2.1",
        f"{version}: a record with 2^14 + 1 bytes of plaintext",
        "record_overflow",
        "tls_failed",
    )
    def one_too_many(world, version=version):
        peer = connected(world, version)
        peer.ask(bytes(RECORD_MAX + 1))
        return peer.outcome()

    @case("RFC 8446 6.2, RFC 5246 7.2.2", f"{version}: an alert of three bytes", "decode_error", "tls_failed")
    def long_alert(world, version=version):
        peer = connected(world, version)
        peer.seal(ALERT, b"\2\x28\0")
        return peer.served()

    @case("RFC 8446 6, RFC 5246 7.2", f"{version}: an alert of an unknown level", "illegal_parameter", "tls_failed")
    def alert_level(world, version=version):
        peer = connected(world, version)
        peer.seal(ALERT, b"\3\x28")
        return peer.served()

    @case(
        "RFC 8446 6.2, RFC 5246 7.2.2",
        f"{version}: a fatal alert ends the connection",
        "end without alert",
        "tls_failed",
    )
    def fatal_alert(world, version=version):
        peer = connected(world, version)
        peer.seal(ALERT, b"\2\x28")
        return peer.outcome()

    @case("RFC 8446 5.2, RFC 5246 7.2.2", f"{version}: a record with a bit changed", "bad_record_mac", "tls_failed")
    def changed(world, version=version):
        peer = connected(world, version)
        record = bytearray(request_record(peer))
        record[-1] ^= 1
        peer.raw(record)
        return peer.outcome()

    @case("RFC 8446 5.2, RFC 5246 7.2.2", f"{version}: a record that was sent before", "bad_record_mac", "tls_failed")
    def replayed(world, version=version):
        peer = connected(world, version)
        record = request_record(peer)
        peer.raw(record)
        assert peer.outcome() == "served"
        peer.raw(record)
        return peer.outcome()

    @case("RFC 8446 5.2, RFC 5246 7.2.2", f"{version}: a record that is left out", "bad_record_mac", "tls_failed")
    def left_out(world, version=version):
        peer = connected(world, version)
        request_record(peer)
        return peer.served()

    @case("RFC 8446 5.2, RFC 5246 7.2.2", f"{version}: a record shorter than a tag", "bad_record_mac", "tls_failed")
    def short(world, version=version):
        peer = connected(world, version)
        peer.plain(APPLICATION_DATA, bytes(15))
        return peer.outcome()

    @case(
        "RFC 8446 5.2, RFC 5246 7.2.2",
        f"{version}: an empty record in place of ciphertext",
        "bad_record_mac",
        "tls_failed",
    )
    def no_ciphertext(world, version=version):
        peer = connected(world, version)
        peer.plain(APPLICATION_DATA, b"")
        return peer.outcome()

    @case(
        "RFC 8446 5, RFC 5246 6",
        f"{version}: a record of an unknown type in the traffic",
        "unexpected_message",
        "tls_failed",
    )
    def unknown_type(world, version=version):
        peer = connected(world, version)
        peer.plain(25, bytes(32))
        return peer.outcome()

    @case(
        "RFC 8446 5, RFC 5246 6",
        f"{version}: a sealed record of an unknown type",
        "unexpected_message",
        "tls_failed",
    )
    def unknown_inner_type(world, version=version):
        peer = connected(world, version)
        peer.seal(25, b"?")
        return peer.outcome()


@case("RFC 8446 5.2", "tls13: a record whose ciphertext has 2^14 + 257 bytes", "record_overflow", "tls_failed")
def ciphertext_13(world):
    peer = connected(world, "tls13")
    peer.plain(APPLICATION_DATA, bytes(RECORD_MAX + 257))
    return peer.outcome()


for version in BOTH:

    @case(
        "RFC 8446 5.2, RFC 5246 6.2.3",
        f"{version}: a record whose ciphertext has 2^14 + 2,049 bytes",
        "record_overflow",
        "tls_failed",
    )
    def ciphertext(world, version=version):
        peer = connected(world, version)
        peer.plain(APPLICATION_DATA, bytes(RECORD_MAX + 2049))
        return peer.outcome()


@case("RFC 8446 5.4", "tls13: an empty fragment of a handshake message", "unexpected_message", "tls_failed")
def empty_handshake_13(world):
    peer = connected(world, "tls13")
    peer.seal(HANDSHAKE, b"")
    return peer.served()


# It must not be sent, and what to do about it is not said.
@case("RFC 5246 6.2.1", "tls12: an empty fragment of a handshake message", "served")
def empty_handshake_12(world):
    peer = connected(world, "tls12")
    peer.seal(HANDSHAKE, b"")
    return peer.served()


@case("RFC 8446 5.4", "tls13: an empty alert", "unexpected_message", "tls_failed")
def empty_alert_13(world):
    peer = connected(world, "tls13")
    peer.seal(ALERT, b"")
    return peer.served()


@case("RFC 5246 7.2.2", "tls12: an empty alert", "decode_error", "tls_failed")
def empty_alert_12(world):
    peer = connected(world, "tls12")
    peer.seal(ALERT, b"")
    return peer.served()


# What the version on the wire was changed to is ignored, and the tag is over what it should be.
@case("RFC 8446 5.1", "tls13: a record with another version of TLS in its header", "served")
def version_changed(world):
    peer = connected(world, "tls13")
    record = bytearray(request_record(peer))
    record[1:3] = b"\3\1"
    peer.raw(record)
    return peer.outcome()


for version in BOTH:

    @case(
        "RFC 8446 5.1, RFC 5246 6.2.1",
        f"{version}: a record of a version that is not TLS in the traffic",
        "decode_error" if version == "tls12" else "bad_record_mac",
        "tls_failed",
    )
    def version_foreign(world, version=version):
        peer = connected(world, version)
        peer.plain(APPLICATION_DATA, bytes(32), 0x0505)
        return peer.outcome()


@case(
    "RFC 8446 5.2",
    "tls13: a handshake record in the traffic that is not encrypted",
    "unexpected_message",
    "tls_failed",
)
def plain_handshake(world):
    peer = connected(world, "tls13")
    peer.plain(HANDSHAKE, hello.message(24, b"\0"))
    return peer.outcome()


@case("RFC 8446 5.2", "tls13: an alert in the traffic that is not encrypted", "unexpected_message", "tls_failed")
def plain_alert(world):
    peer = connected(world, "tls13")
    assert peer.served() == "served"
    peer.plain(ALERT, CLOSE_NOTIFY)
    return peer.outcome()


for name, body in (("application data", PING), ("an empty record of application data", b"")):

    @case("RFC 8446 5, RFC 5246 7.2.2", f"{name} as the first record", "unexpected_message")
    def data_first(world, body=body):
        peer = world.peer()
        peer.plain(APPLICATION_DATA, body)
        return peer.outcome()


@case(
    "RFC 8446 5.1",
    "an empty handshake fragment in front of the hello",
    "decode_error",
    rfc="unexpected_message",
    why="rustls refuses the header of such a record as malformed while nothing is encrypted",
)
def empty_handshake_first(world):
    peer = world.tls13()
    peer.plain(HANDSHAKE, b"")
    return world.answer(peer.hello)


@case("RFC 8446 5.1", "a hello in a record of 2^14 bytes", "accepted")
def hello_full(world):
    return in_one_record(world.tls13(), RECORD_MAX)


@case(
    "RFC 8446 5.1",
    "a hello in a record of 2^14 + 1 bytes",
    "accepted",
    rfc="record_overflow",
    why="rustls bounds records that are not encrypted as if they were, by 2^14 + 2,048",
)
def hello_too_full(world):
    return in_one_record(world.tls13(), RECORD_MAX + 1)


@case(
    "RFC 8446 5.1",
    "a hello in a record of 2^14 + 2,049 bytes",
    "decode_error",
    rfc="record_overflow",
    why="rustls refuses the header of such a record as malformed",
)
def hello_much_too_full(world):
    return in_one_record(world.tls13(), RECORD_MAX + 2049)


@case(
    "RFC 8446 5", "a record of an unknown type as the first", "decode_error", rfc="unexpected_message", why=UNKNOWN_TYPE
)
def unknown_first(world):
    peer = world.peer()
    peer.plain(25, b"?")
    return peer.outcome()


@case("RFC 8446 5.1, RFC 5246 E.1", "a hello in a record of the version 3.0, or 3.99", "accepted")
def version_first(world):
    for version in (0x0300, 0x0363):
        peer = world.tls13()
        peer.plain(HANDSHAKE, peer.hello.message(), version)
        peer.transcript.update(peer.hello.message())
        peer.hear_answer()
    return "accepted"


@case("RFC 8446 5.1", "a hello in a record of the version 0.0", "decode_error", rfc="accepted", why=FOREIGN)
def version_none(world):
    peer = world.tls13()
    peer.plain(HANDSHAKE, peer.hello.message(), 0)
    return peer.outcome()
