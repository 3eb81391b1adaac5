"""How connections end: close_notify both ways, and without (RFC 8446 section 6.1, RFC 5246 section 7.2.1)."""

import socket
import struct

from case import Group
from peer import ALERT, CLOSE_NOTIFY, PING, PONG, Ended

group = Group()
case = group.case
VERSIONS = ("tls13", "tls12")
QUIT = b"*1\r\n$4\r\nQUIT\r\n"


def connected(world, version):
    peer = getattr(world, version)().connect()
    # Tickets and all are read: what comes next belongs to the case.
    assert peer.served() == "served"
    return peer


def rest(peer):
    """All that still comes, and how it ends."""
    replies = b""
    try:
        while True:
            replies += peer.reply()
    except Ended as end:
        return f"{replies.count(PONG)} replies, {end}"


for version in VERSIONS:

    @case(
        "RFC 8446 6.1, RFC 5246 7.2.1",
        f"{version}: a close_notify is answered by one",
        "0 replies, close_notify",
        "client_closed",
    )
    def orderly(world, version=version):
        peer = connected(world, version)
        peer.seal(ALERT, CLOSE_NOTIFY)
        return rest(peer)

    @case(
        "RFC 8446 6.1",
        f"{version}: what was asked before close_notify is answered",
        "100 replies, close_notify",
        "client_closed",
    )
    def owed(world, version=version):
        peer = connected(world, version)
        peer.together(lambda: (peer.ask(100 * PING), peer.seal(ALERT, CLOSE_NOTIFY)))
        return rest(peer)

    @case(
        "RFC 8446 6.1",
        f"{version}: what is asked behind close_notify is ignored",
        "1 replies, close_notify",
        "client_closed",
    )
    def behind(world, version=version):
        peer = connected(world, version)
        peer.together(lambda: (peer.ask(), peer.seal(ALERT, CLOSE_NOTIFY), peer.ask(), peer.raw(b"and junk")))
        return rest(peer)

    @case(
        "RFC 8446 6.1", f"{version}: a close_notify of level fatal is one", "0 replies, close_notify", "client_closed"
    )
    def fatal_close(world, version=version):
        peer = connected(world, version)
        peer.seal(ALERT, b"\2\0")
        return rest(peer)

    # The standards leave it to the application; to ringwall it is an end in disorder that loses nothing.
    @case("RFC 8446 6.1", f"{version}: an end without close_notify", "100 replies, close_notify", "client_truncated")
    def truncated(world, version=version):
        peer = connected(world, version)
        peer.ask(100 * PING)
        peer.wire.socket.shutdown(socket.SHUT_WR)
        return rest(peer)

    @case("RFC 8446 6.1", f"{version}: an end in the midst of a record", "1 replies, close_notify", "client_truncated")
    def cut_record(world, version=version):
        peer = connected(world, version)
        peer.ask()
        peer.wire.hold()
        peer.ask()
        peer.raw(peer.wire.take()[:-1])
        peer.wire.socket.shutdown(socket.SHUT_WR)
        return rest(peer)

    @case(
        "RFC 8446 6.1",
        f"{version}: a server that closes is a close_notify",
        "0 replies, close_notify",
        "backend_closed",
    )
    def server_closes(world, version=version):
        peer = connected(world, version)
        peer.ask(QUIT)
        return rest(peer)

    @case("RFC 8446 6.1", f"{version}: a client that resets its connection", "reset", "client_reset")
    def reset(world, version=version):
        peer = connected(world, version)
        peer.wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return "reset"


EARLY = "rustls believes no close_notify before the handshake is done, "


@case(
    "RFC 8446 6.1",
    "tls13: a close_notify in place of a Finished",
    "decode_error",
    rfc="close_notify",
    why=EARLY + "and takes it for one of the warnings that TLS 1.3 does not have",
)
def in_handshake(world):
    peer = world.tls13().until_finished()
    peer.seal(ALERT, CLOSE_NOTIFY)
    peer.wire.socket.shutdown(socket.SHUT_WR)
    return peer.outcome()


@case(
    "RFC 8446 6.1",
    "tls13: user_canceled and close_notify in place of a Finished",
    "decode_error",
    rfc="close_notify",
    why="as before",
)
def canceled(world):
    peer = world.tls13().until_finished()
    peer.seal(ALERT, b"\1\x5a")
    peer.seal(ALERT, CLOSE_NOTIFY)
    peer.wire.socket.shutdown(socket.SHUT_WR)
    return peer.outcome()


@case(
    "RFC 5246 7.2.1",
    "tls12: a close_notify in place of a Finished",
    "end without alert",
    "handshake_aborted",
    rfc="close_notify",
    why=EARLY + "and passes over warnings of TLS 1.2; the end that follows ends the session",
)
def in_handshake_12(world):
    peer = world.tls12().until_finished()
    peer.seal(ALERT, CLOSE_NOTIFY)
    peer.wire.socket.shutdown(socket.SHUT_WR)
    return peer.outcome()


@case(
    "RFC 8446 6.1",
    "a close_notify in place of a hello",
    "end without alert",
    "handshake_aborted",
    rfc="close_notify",
    why="as before",
)
def in_place_of_hello(world):
    peer = world.peer()
    peer.plain(ALERT, CLOSE_NOTIFY)
    peer.wire.socket.shutdown(socket.SHUT_WR)
    return peer.outcome()


@case(
    "RFC 8446 6.2",
    "tls13: a fatal alert in plain text in place of a Finished, from a client that refused the keys",
    "end without alert",
)
def plain_alert(world):
    peer = world.tls13().until_finished()
    peer.plain(ALERT, b"\2\x2a")
    return peer.outcome()


@case("RFC 8446 6.2", "a fatal alert in place of a hello", "end without alert")
def alert_first(world):
    peer = world.peer()
    peer.plain(ALERT, b"\2\x28")
    return peer.outcome()
