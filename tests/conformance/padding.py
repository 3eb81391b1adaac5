"""Padding of TLS 1.3 (RFC 8446 section 5.4)."""

from case import Group
from peer import ALERT, APPLICATION_DATA, CLOSE_NOTIFY, HANDSHAKE, PING, RECORD_MAX

group = Group()
case = group.case


@case("RFC 8446 5.4", "records with padding of each length up to 64", "served")
def padded(world):
    peer = world.tls13().connect()
    for length in range(64):
        peer.seal(APPLICATION_DATA, PING, length)
    return peer.served_times(64)


@case("RFC 8446 5.4", "a record that is full of padding", "served")
def full(world):
    peer = world.tls13().connect()
    # The content type is beside the 2^14 bytes.
    peer.seal(APPLICATION_DATA, PING, RECORD_MAX - len(PING))
    return peer.outcome()


@case("RFC 8446 5.4", "a record with one byte of padding too many", "record_overflow", "tls_failed")
def too_full(world):
    peer = world.tls13().connect()
    peer.seal(APPLICATION_DATA, PING, RECORD_MAX - len(PING) + 1)
    return peer.outcome()


@case("RFC 8446 5.1", "application data of padding only", "served")
def empty(world):
    peer = world.tls13().connect()
    peer.seal(APPLICATION_DATA, b"", 100)
    return peer.served()


for length in (0, 1, 100, RECORD_MAX):

    @case(
        "RFC 8446 5.4",
        f"{length + 1} zeros and no content type",
        "unexpected_message",
        "tls_failed",
    )
    def zeros(world, length=length):
        peer = world.tls13().connect()
        peer.seal(0, b"", length)
        return peer.served()


@case("RFC 8446 5.4", "an empty handshake fragment with padding", "unexpected_message", "tls_failed")
def empty_handshake(world):
    peer = world.tls13().connect()
    peer.seal(HANDSHAKE, b"", 100)
    return peer.served()


@case("RFC 8446 5.4", "an empty alert with padding", "unexpected_message", "tls_failed")
def empty_alert(world):
    peer = world.tls13().connect()
    peer.seal(ALERT, b"", 100)
    return peer.served()


@case("RFC 8446 5.4", "a Finished with padding", "served")
def finished(world):
    peer = world.tls13().until_finished()
    message = peer.finished()
    peer.transcript.update(message)
    peer.seal(HANDSHAKE, message, 100)
    peer.start_traffic()
    return peer.served()


@case("RFC 8446 5.4", "a close_notify with padding", "close_notify", "client_closed")
def close_notify(world):
    peer = world.tls13().connect()
    assert peer.served() == "served"
    peer.seal(ALERT, CLOSE_NOTIFY, 100)
    return peer.outcome()
