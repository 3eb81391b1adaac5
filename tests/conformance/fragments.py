"""Messages over several records, several messages in one, and pieces that TCP makes (RFC 8446 section 5.1)."""

import hello
from case import Group
from peer import HANDSHAKE, PING
from tls12 import SERVER_HELLO
from tls13 import CERTIFICATE

group = Group()
case = group.case


def accepted(peer):
    """Whether the server has answered a hello."""
    kind, content = peer.hear()
    return kind == HANDSHAKE and content[0] == SERVER_HELLO


def each(world, enter, pieces):
    """`accepted` if the server accepts the hello in two pieces, whichever byte is the first of the second; `pieces`
    says how they are sent."""
    length = len(enter().hello.message())
    for at in range(1, length):
        peer = enter()
        pieces(peer, peer.hello.message(), at)
        if not accepted(peer):
            return f"not accepted when cut at byte {at}"
    return "accepted"


def in_records(peer, message, at):
    peer.together(lambda: (peer.plain(HANDSHAKE, message[:at], 0x0301), peer.plain(HANDSHAKE, message[at:], 0x0301)))


def in_segments(peer, message, at):
    peer.wire.hold()
    peer.plain(HANDSHAKE, message, 0x0301)
    record = peer.wire.take()
    peer.raw(record[:at])
    peer.raw(record[at:])


for version in ("tls13", "tls12"):

    @case("RFC 8446 5.1", f"{version}: a hello in two records, cut at each byte", "accepted")
    def records(world, version=version):
        return each(world, getattr(world, version), in_records)

    @case("RFC 8446 5.1", f"{version}: a hello in two pieces of TCP, cut at each byte", "accepted")
    def segments(world, version=version):
        return each(world, getattr(world, version), in_segments)

    @case("RFC 8446 5.1", f"{version}: a hello in records of one byte", "accepted")
    def bytes_of_hello(world, version=version):
        peer = getattr(world, version)()
        peer.together(lambda: [peer.plain(HANDSHAKE, bytes([byte]), 0x0301) for byte in peer.hello.message()])
        peer.transcript.update(peer.hello.message())
        peer.hear_answer()
        return "accepted"

    @case("RFC 8446 5.1", f"{version}: a Finished in two records, cut at each byte", "served")
    def finished(world, version=version):
        for at in range(1, 36 if version == "tls13" else 16):
            peer = getattr(world, version)().until_finished()
            message = peer.finished()
            peer.transcript.update(message)
            peer.seal(HANDSHAKE, message[:at])
            peer.seal(HANDSHAKE, message[at:])
            peer.start_traffic() if version == "tls13" else peer.hear_finished()
            if (outcome := peer.served()) != "served":
                return f"{outcome} when cut at byte {at}"
        return "served"

    @case("RFC 8446 5.1", f"{version}: a request in records of one byte, and of one byte and nothing in turn", "served")
    def request(world, version=version):
        peer = getattr(world, version)().connect()

        def say(pause):
            for byte in PING:
                peer.ask(bytes([byte]))
                for _ in range(pause):
                    peer.ask(b"")

        peer.together(lambda: say(0))
        peer.together(lambda: say(1))
        return peer.served_times(2)

    @case("RFC 8446 5.1", f"{version}: 500 requests in records that come in one piece", "served")
    def requests(world, version=version):
        peer = getattr(world, version)().connect()
        peer.together(lambda: [peer.ask() for _ in range(500)])
        return peer.served_times(500)


@case("RFC 8446 2", "tls13: a request in one piece with the Finished", "served")
def request_with_finished(world):
    peer = world.tls13().until_finished()
    peer.together(lambda: (peer.finish(), peer.ask()))
    return peer.outcome()


@case("RFC 8446 5.1", "tls13: Certificate and Finished in one record", "served")
def certificate_and_finished(world):
    peer = world.tls13("asks").until_finished()
    certificate = hello.message(CERTIFICATE, bytes(4))
    peer.transcript.update(certificate)
    finished = peer.finished()
    peer.transcript.update(finished)
    peer.seal(HANDSHAKE, certificate + finished)
    peer.start_traffic()
    return peer.served()


@case("RFC 8446 5.1", "tls13: Certificate and Finished in records that are cut elsewhere", "served")
def certificate_and_finished_across(world):
    peer = world.tls13("asks").until_finished()
    certificate = hello.message(CERTIFICATE, bytes(4))
    peer.transcript.update(certificate)
    finished = peer.finished()
    peer.transcript.update(finished)
    both = certificate + finished
    for start, end in ((0, 3), (3, 9), (9, 10), (10, len(both))):
        peer.seal(HANDSHAKE, both[start:end])
    peer.start_traffic()
    return peer.served()


@case("RFC 5246 6.2.1", "tls12: Certificate and ClientKeyExchange in one record", "served")
def certificate_and_exchange(world):
    peer = world.tls12("asks")
    peer.send_hello()
    peer.hear_answer()
    both = hello.message(CERTIFICATE, bytes(3)) + peer.key_exchange()
    peer.transcript.update(both)
    peer.seal(HANDSHAKE, both)
    peer.derive_keys()
    peer.change_cipher_spec()
    peer.say(peer.finished())
    peer.hear_finished()
    return peer.served()


@case("RFC 5246 7.3", "tls12: ClientKeyExchange, ChangeCipherSpec and Finished in one piece", "served")
def flight(world):
    peer = world.tls12()
    peer.send_hello()
    peer.hear_answer()

    def say():
        peer.say(peer.key_exchange())
        peer.derive_keys()
        peer.change_cipher_spec()
        peer.say(peer.finished())

    peer.together(say)
    peer.hear_finished()
    return peer.served()


@case(
    "RFC 5246 7.1",
    "tls12: a ChangeCipherSpec in the midst of a ClientKeyExchange",
    "decode_error",
    rfc="unexpected_message",
    why="rustls ends without an alert here, and ringwall can make it send none but this",
)
def interleaved(world):
    peer = world.tls12()
    peer.send_hello()
    peer.hear_answer()
    peer.seal(HANDSHAKE, peer.key_exchange()[:10])
    peer.plain(20, b"\1")
    return peer.outcome()
