"""Handshakes that stop at any byte: the client leaves, or says nothing more. Each ends, is told of in the log, and leaves
nothing open in the process."""

from case import Group
from peer import Ended
from process import until

group = Group()
case = group.case
CHANGE_CIPHER_SPEC = 20


def hello_record(peer):
    """The record with the hello, not sent."""
    peer.wire.hold()
    peer.send_hello()
    return peer.wire.take()


def last_flight(peer):
    """What the client says last in a handshake, not sent."""
    peer.send_hello()
    peer.hear_answer()
    peer.wire.hold()
    if hasattr(peer, "key_exchange"):
        peer.say(peer.key_exchange())
        peer.derive_keys()
        peer.change_cipher_spec()
        peer.say(peer.finished())
    else:
        peer.plain(CHANGE_CIPHER_SPEC, b"\1")
        peer.say(peer.finished())
    return peer.wire.take()


FLIGHTS = [(version, flight) for version in ("tls13", "tls12") for flight in (hello_record, last_flight)]
NAMES = {hello_record: "hello", last_flight: "last flight"}


def stopped(world, instance, version, flight):
    """Connections that stop within `flight`, one at each of its bytes."""

    def enter():
        # The session is the case's to ask for.
        peer = getattr(world, version)(instance=instance)
        world.peers.remove(peer)
        return peer

    whole = enter()
    length = len(flight(whole))
    whole.close()
    for sent in range(length):
        peer = enter()
        try:
            peer.raw(flight(peer)[:sent])
        except (Ended, ConnectionError):
            # On a machine that is busy its time may be over before, which the log then says.
            pass
        yield peer


def left(world, version, flight):
    """The reasons in the log when clients leave."""
    peers = []
    for peer in stopped(world, world.ringwall, version, flight):
        peer.close()
        peers.append(peer)
    return ", ".join({peer.session()["reason"] for peer in peers})


def stalled(world):
    """What clients that say nothing more are told, and the reasons in the log."""
    outcomes = set()
    for peer in [peer for version, flight in FLIGHTS for peer in stopped(world, world.hasty, version, flight)]:
        told = peer.outcome()
        peer.close()
        session = peer.session()
        outcomes.add(f"{told} {session['reason']}" + (session["duration_ms"] < 2000) * " too early")
    return ", ".join(outcomes)


def freed(world, instance, act):
    """The outcome of `act`, after which the process must have no more descriptors open than before."""
    files = instance.open_files()
    outcome = act()
    until(lambda: instance.open_files() <= files, f"{files} open files instead of {instance.open_files()}")
    return outcome


for version, flight in FLIGHTS:

    @case("RFC 8446 6.1", f"{version}: a client leaves at each byte of its {NAMES[flight]}", "handshake_aborted")
    def leave(world, version=version, flight=flight):
        return freed(world, world.ringwall, lambda: left(world, version, flight))


@case("RFC 8446 6.1", "a client says nothing more from any byte on", "close_notify handshake_timeout")
def stall(world):
    return freed(world, world.hasty, lambda: stalled(world))
