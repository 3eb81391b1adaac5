"""Attempts at a second handshake (RFC 5246 section 7.4.1, RFC 5746; RFC 8446 section 4.1.2)."""

import hello
from case import Group
from peer import ALERT, HANDSHAKE

group = Group()
case = group.case


def told(peer):
    """The outcome of a request, and the warnings that came before."""
    return f"{peer.served()}, {peer.warnings}"


@case(
    "RFC 5246 7.2.2",
    "tls12: a hello in the traffic is refused and the connection goes on",
    "served, ['no_renegotiation']",
)
def refused(world):
    peer = world.tls12().connect()
    peer.seal(HANDSHAKE, hello.tls12().message())
    return told(peer)


# A client that insists is cut off.
@case(
    "RFC 5246 7.2.2",
    "tls12: a second one ends the connection",
    "unexpected_message, ['no_renegotiation']",
    "tls_failed",
)
def insisted(world):
    peer = world.tls12().connect()
    peer.seal(HANDSHAKE, hello.tls12().message())
    peer.seal(HANDSHAKE, hello.tls12().message())
    return told(peer)


@case("RFC 5246 7.4.1.1", "tls12: a HelloRequest of a client", "unexpected_message", "tls_failed")
def hello_request(world):
    peer = world.tls12().connect()
    peer.seal(HANDSHAKE, hello.message(0, b""))
    return peer.outcome()


@case("RFC 5246 7.4", "tls12: a Finished in the traffic", "unexpected_message", "tls_failed")
def finished(world):
    peer = world.tls12().connect()
    peer.seal(HANDSHAKE, hello.message(20, bytes(12)))
    return peer.outcome()


@case("RFC 5246 7.2.2", "tls12: warnings are passed over", "served, []")
def warnings(world):
    peer = world.tls12().connect()
    for _ in range(4):
        peer.seal(ALERT, b"\1\x64")
    return told(peer)


# The standard has no bound; ringwall passes over four.
@case("RFC 5246 7.2", "tls12: five of them are too many", "unexpected_message", "tls_failed")
def many_warnings(world):
    peer = world.tls12().connect()
    for _ in range(5):
        peer.seal(ALERT, b"\1\x64")
    return peer.outcome()


for name, message in (
    ("a hello", hello.tls13().message()),
    ("a HelloRequest", hello.message(0, b"")),
    ("a Finished", hello.message(20, bytes(32))),
    ("a Certificate that was not asked for", hello.message(11, bytes(4))),
    ("a NewSessionTicket", hello.message(4, bytes(9) + hello.counted(2, b"ticket") + bytes(2))),
    ("an EndOfEarlyData", hello.message(5, b"")),
):

    @case("RFC 8446 4.1.2, 4.6", f"tls13: {name} in the traffic", "unexpected_message", "tls_failed")
    def unexpected(world, message=message):
        peer = world.tls13().connect()
        peer.seal(HANDSHAKE, message)
        return peer.outcome()


@case("RFC 8446 6.2", "tls13: a warning is as a fatal alert", "end without alert", "tls_failed")
def warning(world):
    peer = world.tls13().connect()
    peer.seal(ALERT, b"\1\x64")
    return peer.outcome()


@case("RFC 8446 6.1", "tls13: user_canceled is passed over", "served")
def canceled(world):
    peer = world.tls13().connect()
    peer.seal(ALERT, b"\1\x5a")
    return peer.served()
