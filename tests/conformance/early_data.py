"""Early data, which ringwall never takes: it is skipped (RFC 8446 section 4.2.10)."""

import hello
from case import Group
from hello import counted
from peer import APPLICATION_DATA, HANDSHAKE
from tls13 import END_OF_EARLY_DATA, ENCRYPTED_EXTENSIONS

group = Group()
case = group.case


def early(world, records, ticket=None):
    """A client that has sent a hello with a ticket, and early data."""
    ticket, psk = ticket or world.tls13().connect().ticket()
    peer = world.tls13()

    def say():
        peer.send_hello(peer.offering(ticket, psk, early_data=True))
        for record in records:
            peer.plain(APPLICATION_DATA, record)

    peer.together(say)
    return peer


@case("RFC 8446 4.2.10", "early data is skipped and the session resumes", "resumed, served")
def skipped(world):
    peer = early(world, [bytes(100), bytes(17), bytes(3000)])
    assert ENCRYPTED_EXTENSIONS in peer.hear_answer()
    return peer.finish_as()


@case("RFC 8446 4.2.10", "early data of a ticket that does not open", "full, served")
def unknown_ticket(world):
    peer = early(world, [bytes(100)], (b"ticket", bytes(32)))
    peer.hear_answer()
    return peer.finish_as()


@case("RFC 8446 4.2.10", "none sent, though announced", "resumed, served")
def none(world):
    peer = early(world, [])
    peer.hear_answer()
    return peer.finish_as()


@case("RFC 8446 4.2.10", "8 KiB of early data in one record", "resumed, served")
def large(world):
    peer = early(world, [bytes(2**13)])
    peer.hear_answer()
    return peer.finish_as()


# No ticket of ringwall allows any, so that any bound will do. rustls skips 2^14 bytes, and counts a record again with
# each one that it skips behind it.
@case("RFC 8446 4.2.10", "five records of 3,000 bytes", "bad_record_mac")
def too_much(world):
    peer = early(world, 5 * [bytes(3000)])
    peer.hear_answer()
    return peer.outcome()


@case("RFC 8446 4.2.10", "early data between the hellos of a retry", "full, served")
def retry(world):
    peer = world.tls13()
    peer.hello = peer.hello.put(hello.KEY_SHARE, counted(2, b""))

    def say():
        peer.send_hello(peer.offering(b"ticket", bytes(32), early_data=True))
        peer.plain(APPLICATION_DATA, bytes(1000))

    peer.together(say)
    peer.hear_server_hello()
    assert peer.is_retry()
    peer.plain(APPLICATION_DATA, bytes(1000))
    second = peer.hello.without(hello.EARLY_DATA, hello.PRE_SHARED_KEY)
    peer.hello = second.put(hello.KEY_SHARE, hello.shares(*peer.shares()))
    peer.send_hello(peer.offering(b"ticket", bytes(32)))
    peer.hear_answer()
    return peer.finish_as()


@case("RFC 8446 4.2.10", "early data without a ticket", "full, served")
def no_ticket(world):
    peer = world.tls13()
    peer.send_hello(peer.hello.put(hello.EARLY_DATA, b""))
    peer.plain(APPLICATION_DATA, bytes(100))
    peer.hear_answer()
    return peer.finish_as()


@case("RFC 8446 4.2.10", "early data that was not announced", "bad_record_mac")
def not_announced(world):
    peer = world.tls13()
    peer.together(lambda: (peer.send_hello(), peer.plain(APPLICATION_DATA, bytes(100))))
    peer.hear_answer()
    return peer.outcome()


@case("RFC 8446 4.2.10", "a content of the extension", "decode_error")
def content(world):
    peer = world.tls13()
    return world.answer(peer.hello.put(hello.EARLY_DATA, b"\0"))


@case("RFC 8446 4.5", "an EndOfEarlyData of early data that was refused", "unexpected_message")
def end(world):
    peer = early(world, [bytes(100)])
    peer.hear_answer()
    peer.seal(HANDSHAKE, hello.message(END_OF_EARLY_DATA, b""))
    return peer.outcome()


@case("RFC 8446 4.2.10", "early data behind the Finished", "bad_record_mac", "tls_failed")
def late(world):
    peer = early(world, [bytes(100)])
    peer.hear_answer()
    peer.say(peer.finished())
    peer.start_traffic()
    peer.plain(APPLICATION_DATA, bytes(100))
    return peer.outcome()


@case(
    "RFC 8446 4.2.10",
    "early data in the midst of a Finished",
    "decode_error",
    rfc="unexpected_message",
    why="rustls ends without an alert here, and ringwall can make it send none but this",
)
def in_finished(world):
    peer = early(world, [])
    peer.hear_answer()
    peer.seal(HANDSHAKE, peer.finished()[:10])
    peer.plain(APPLICATION_DATA, bytes(100))
    return peer.outcome()


@case("RFC 8446 4.2.10", "tls12: early data behind a hello", "unexpected_message")
def tls12(world):
    peer = world.tls12()
    peer.send_hello()
    peer.hear_answer()
    peer.plain(APPLICATION_DATA, bytes(100))
    return peer.outcome()
