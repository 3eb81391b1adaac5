"""Key updates (RFC 8446 section 4.6.3)."""

import hello
from case import Group
from peer import APPLICATION_DATA, HANDSHAKE, PING
from tls13 import KEY_UPDATE

group = Group()
case = group.case


def answers(peer):
    """The outcome of a request, and the key updates that the server has sent by then."""
    return f"{peer.served()}, {len(getattr(peer, 'key_updates', []))} updates"


@case("RFC 8446 4.6.3", "an update that asks for none", "served, 0 updates")
def not_requested(world):
    peer = world.tls13().connect()
    peer.update_key(0)
    return answers(peer)


@case("RFC 8446 4.6.3", "an update that asks for one", "served, 1 updates")
def requested(world):
    peer = world.tls13().connect()
    peer.update_key(1)
    return answers(peer)


@case("RFC 8446 4.6.3", "the answer to an update asks for none", "b'\\x00'", "client_truncated")
def answer(world):
    peer = world.tls13().connect()
    peer.update_key(1)
    peer.served()
    return str(peer.key_updates[0])


# The answers may be one for all: "multiple KeyUpdates while it is silent ... respond with a single update".
@case("RFC 8446 4.6.3", "ten updates that ask, before the next request, have one answer", "served, 1 updates")
def ten_requested(world):
    peer = world.tls13().connect()
    for _ in range(10):
        peer.update_key(1)
    return answers(peer)


@case("RFC 8446 4.6.3", "an update between each of 100 requests", "served, 100 updates")
def between_requests(world):
    peer = world.tls13().connect()
    for _ in range(99):
        peer.update_key(1)
        assert peer.served() == "served"
    peer.update_key(1)
    return answers(peer)


@case("RFC 8446 4.6.3", "an update in the middle of a request", "served, 1 updates")
def in_a_request(world):
    peer = world.tls13().connect()

    def say():
        peer.ask(PING[:7])
        peer.update_key(1)
        peer.ask(PING[7:])

    peer.together(say)
    return f"{peer.outcome()}, {len(peer.key_updates)} updates"


@case("RFC 8446 4.6.3", "updates between the records of a pipeline that comes in one piece", "served")
def in_a_pipeline(world):
    peer = world.tls13().connect()

    def say():
        for number in range(20):
            peer.ask()
            peer.update_key(number % 2)

    peer.together(say)
    return peer.served_times(20)


@case("RFC 8446 4.6.3", "a value that is neither", "illegal_parameter", "tls_failed")
def bad_value(world):
    peer = world.tls13().connect()
    peer.seal(HANDSHAKE, hello.message(KEY_UPDATE, b"\2"))
    return peer.outcome()


@case("RFC 8446 6.2", "an empty update", "decode_error", "tls_failed")
def empty(world):
    peer = world.tls13().connect()
    peer.seal(HANDSHAKE, hello.message(KEY_UPDATE, b""))
    return peer.outcome()


@case("RFC 8446 6.2", "an update of two bytes", "decode_error", "tls_failed")
def long(world):
    peer = world.tls13().connect()
    peer.seal(HANDSHAKE, hello.message(KEY_UPDATE, b"\0\0"))
    return peer.outcome()


@case("RFC 8446 5.1", "a message behind an update in the same record", "unexpected_message", "tls_failed")
def not_aligned(world):
    peer = world.tls13().connect()
    peer.seal(HANDSHAKE, 2 * hello.message(KEY_UPDATE, b"\0"))
    return peer.outcome()


@case("RFC 8446 5.1", "an update over two records", "served, 1 updates")
def in_two_records(world):
    peer = world.tls13().connect()
    message = hello.message(KEY_UPDATE, b"\1")
    peer.seal(HANDSHAKE, message[:3])
    peer.seal(HANDSHAKE, message[3:])
    peer.change_key()
    return answers(peer)


@case("RFC 8446 5.1", "a request between the records of an update", "unexpected_message", "tls_failed")
def interleaved(world):
    peer = world.tls13().connect()
    message = hello.message(KEY_UPDATE, b"\0")
    peer.seal(HANDSHAKE, message[:3])
    peer.seal(APPLICATION_DATA, PING)
    return peer.outcome()


@case("RFC 8446 4.6.3", "a request under the old key behind an update", "bad_record_mac", "tls_failed")
def old_key(world):
    peer = world.tls13().connect()
    peer.seal(HANDSHAKE, hello.message(KEY_UPDATE, b"\0"))
    return peer.served()


@case("RFC 8446 4.6.3", "an update before the Finished", "unexpected_message")
def before_finished(world):
    peer = world.tls13().until_finished()
    peer.seal(HANDSHAKE, hello.message(KEY_UPDATE, b"\0"))
    return peer.outcome()


@case("RFC 8446 4.6.3", "an update that is not encrypted", "unexpected_message")
def plain(world):
    peer = world.tls13()
    peer.plain(HANDSHAKE, hello.message(KEY_UPDATE, b"\0"))
    return peer.outcome()


@case("RFC 5246 7.4", "tls12: an update", "unexpected_message", "tls_failed")
def tls12(world):
    peer = world.tls12().connect()
    peer.seal(HANDSHAKE, hello.message(KEY_UPDATE, b"\0"))
    return peer.outcome()
