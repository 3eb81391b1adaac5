"""ChangeCipherSpec: nothing in TLS 1.3 (RFC 8446 sections 5 and D.4), much in TLS 1.2 (RFC 5246 section 7.1)."""

from case import Group
from peer import CHANGE_CIPHER_SPEC, HANDSHAKE

group = Group()
case = group.case


@case("RFC 8446 5", "tls13: before the hello", "unexpected_message")
def before_hello(world):
    peer = world.tls13()
    peer.plain(CHANGE_CIPHER_SPEC, b"\1")
    return world.answer(peer.hello)


def with_specs(peer, *contents):
    """A handshake with these ChangeCipherSpecs in front of the Finished."""
    peer.until_finished()
    for content in contents:
        peer.plain(CHANGE_CIPHER_SPEC, content)
    return peer.finish().served()


@case("RFC 8446 D.4", "tls13: in front of the Finished", "served")
def before_finished(world):
    return with_specs(world.tls13(), b"\1")


@case("RFC 8446 D.4", "tls13: right behind the hello", "served")
def behind_hello(world):
    peer = world.tls13()
    peer.together(lambda: (peer.send_hello(), peer.plain(CHANGE_CIPHER_SPEC, b"\1")))
    peer.hear_answer()
    return peer.finish().served()


@case("RFC 8446 5", "tls13: two of them", "served")
def two(world):
    return with_specs(world.tls13(), b"\1", b"\1")


@case(
    "RFC 8446 5",
    "tls13: three of them",
    "decode_error",
    rfc="served",
    why="rustls takes one for each hello that a client may send, which is all that the compatible mode needs",
)
def three(world):
    return with_specs(world.tls13(), b"\1", b"\1", b"\1")


for name, content in (("of another value", b"\0"), ("of two bytes", b"\1\1")):

    @case("RFC 8446 5", f"tls13: {name}", "unexpected_message")
    def value(world, content=content):
        return with_specs(world.tls13(), content)


@case(
    "RFC 8446 5.1",
    "tls13: an empty one",
    "decode_error",
    rfc="unexpected_message",
    why="rustls refuses the header of such a record as malformed",
)
def empty(world):
    return with_specs(world.tls13(), b"")


@case("RFC 8446 5", "tls13: encrypted", "unexpected_message")
def encrypted(world):
    peer = world.tls13().until_finished()
    # tlslite-ng encrypts none: the content type is that of the bytes' end, which padding may follow.
    peer.seal(0, b"\1" + bytes([CHANGE_CIPHER_SPEC]))
    return peer.outcome()


@case("RFC 8446 5", "tls13: behind the Finished", "unexpected_message", "tls_failed")
def behind_finished(world):
    peer = world.tls13().connect()
    peer.plain(CHANGE_CIPHER_SPEC, b"\1")
    return peer.outcome()


@case("RFC 8446 5", "tls13: in the traffic", "unexpected_message", "tls_failed")
def in_traffic(world):
    peer = world.tls13().connect()
    assert peer.served() == "served"
    peer.plain(CHANGE_CIPHER_SPEC, b"\1")
    return peer.outcome()


@case(
    "RFC 8446 5.1",
    "tls13: between the halves of a Finished",
    "bad_record_mac",
    rfc="unexpected_message",
    why="in the midst of a message rustls takes each record for ciphertext",
)
def in_finished(world):
    peer = world.tls13().until_finished()
    message = peer.finished()
    peer.seal(HANDSHAKE, message[:10])
    peer.plain(CHANGE_CIPHER_SPEC, b"\1")
    peer.seal(HANDSHAKE, message[10:])
    return peer.outcome()


@case("RFC 5246 7.1", "tls12: before the hello", "unexpected_message")
def before_hello_12(world):
    peer = world.tls12()
    peer.plain(CHANGE_CIPHER_SPEC, b"\1")
    return world.answer(peer.hello)


# CVE-2014-0224: keys of nothing must not be used.
@case("RFC 5246 7.1", "tls12: before the ClientKeyExchange", "unexpected_message")
def before_keys_12(world):
    peer = world.tls12()
    peer.send_hello()
    peer.hear_answer()
    peer.plain(CHANGE_CIPHER_SPEC, b"\1")
    return peer.outcome()


@case("RFC 5246 7.1", "tls12: two of them", "unexpected_message")
def two_12(world):
    peer = world.tls12().until_finished()
    peer.plain(CHANGE_CIPHER_SPEC, b"\1")
    return peer.outcome()


for name, content in (("of another value", b"\0"), ("of two bytes", b"\1\1")):

    @case("RFC 5246 7.1", f"tls12: {name}", "decode_error")
    def value_12(world, content=content):
        peer = world.tls12()
        peer.send_hello()
        peer.hear_answer()
        peer.say(peer.key_exchange())
        peer.plain(CHANGE_CIPHER_SPEC, content)
        return peer.outcome()


@case("RFC 5246 7.4.9", "tls12: a Finished without one", "unexpected_message")
def none_12(world):
    peer = world.tls12()
    peer.send_hello()
    peer.hear_answer()
    peer.say(peer.key_exchange())
    peer.derive_keys()
    peer.say(peer.finished())
    return peer.outcome()


@case("RFC 5246 7.1", "tls12: in the traffic", "unexpected_message", "tls_failed")
def in_traffic_12(world):
    peer = world.tls12().connect()
    peer.seal(CHANGE_CIPHER_SPEC, b"\1")
    return peer.outcome()
