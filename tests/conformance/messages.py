"""Handshake messages behind the hello that are wrong or out of place (RFC 8446 section 4, RFC 5246 section 7.4)."""

import hello
from case import Group
from hello import counted
from peer import APPLICATION_DATA, HANDSHAKE, PING
from tls12 import CLIENT_KEY_EXCHANGE
from tls13 import CERTIFICATE, CERTIFICATE_VERIFY, FINISHED

group = Group()
case = group.case


def instead(world, message, kind=HANDSHAKE):
    """The outcome of this in place of a Finished of TLS 1.3."""
    peer = world.tls13().until_finished()
    peer.seal(kind, message)
    return peer.outcome()


@case("RFC 8446 4.4.4", "tls13: a wrong Finished", "decrypt_error")
def wrong_finished(world):
    return instead(world, hello.message(FINISHED, bytes(32)))


# Its length is that of the hash, so that a shorter one is malformed as well as wrong.
for length in (0, 31, 33, 48):

    @case(
        "RFC 8446 4.4.4",
        f"tls13: a Finished of {length} bytes",
        "decrypt_error",
        rfc="decode_error",
        why="rustls compares it without a look at its length",
    )
    def finished_length(world, length=length):
        return instead(world, hello.message(FINISHED, bytes(length)))


@case("RFC 8446 4", "tls13: a Certificate that was not asked for", "unexpected_message")
def certificate(world):
    return instead(world, hello.message(CERTIFICATE, bytes(4)))


@case("RFC 8446 4", "tls13: a CertificateVerify alone", "unexpected_message")
def certificate_verify(world):
    return instead(world, hello.message(CERTIFICATE_VERIFY, b"\4\3" + counted(2, bytes(70))))


@case("RFC 8446 4", "tls13: a second hello in place of the Finished", "unexpected_message")
def second_hello(world):
    return instead(world, hello.tls13().message())


@case("RFC 8446 4", "tls13: a message of an unknown type in place of the Finished", "unexpected_message")
def unknown(world):
    return instead(world, hello.message(99, bytes(32)))


@case("RFC 8446 2, 5", "tls13: application data in place of the Finished", "unexpected_message")
def data(world):
    return instead(world, PING, APPLICATION_DATA)


@case("RFC 8446 5.1", "tls13: a message behind the Finished in its record", "unexpected_message")
def behind_finished(world):
    peer = world.tls13().until_finished()
    peer.seal(HANDSHAKE, peer.finished() + hello.message(24, b"\0"))
    return peer.outcome()


@case(
    "RFC 8446 5.1",
    "tls13: a Finished that is not encrypted",
    "bad_record_mac",
    rfc="unexpected_message",
    why="rustls takes each record but ChangeCipherSpec and alerts for ciphertext once there are keys",
)
def plain_finished(world):
    peer = world.tls13().until_finished()
    peer.plain(HANDSHAKE, peer.finished())
    return peer.outcome()


@case("RFC 8446 5.2", "tls13: a Finished under the keys of application data", "bad_record_mac")
def finished_too_late(world):
    peer = world.tls13().until_finished()
    message = peer.finished()
    peer.start_traffic()
    peer.seal(HANDSHAKE, message)
    return peer.outcome()


@case("RFC 8446 4.4.2", "tls13: a client that is asked for a certificate and has none", "served")
def asked(world):
    peer = world.tls13("asks").until_finished()
    peer.say(hello.message(CERTIFICATE, bytes(4)))
    return peer.finish().served()


@case("RFC 8446 4.4.2", "tls13: a client that passes over what it is asked for", "unexpected_message")
def asked_in_vain(world):
    return world.tls13("asks").until_finished().finish().served()


@case(
    "RFC 8446 4.4.2",
    "tls13: a certificate with a context that nobody gave",
    "decode_error",
    rfc="illegal_parameter",
    why="rustls counts it as malformed",
)
def context(world):
    peer = world.tls13("asks").until_finished()
    peer.say(hello.message(CERTIFICATE, counted(1, b"context") + bytes(3)))
    return peer.outcome()


@case("RFC 8446 4.4.2.4", "tls13: a certificate that is not one", "bad_certificate")
def no_certificate(world):
    peer = world.tls13("asks").until_finished()
    entry = counted(3, b"not a certificate") + bytes(2)
    peer.say(hello.message(CERTIFICATE, bytes(1) + counted(3, entry)))
    peer.say(hello.message(CERTIFICATE_VERIFY, b"\4\3" + counted(2, bytes(70))))
    return peer.outcome()


def exchanged(world, body, listener="public"):
    """The outcome of a ClientKeyExchange with this body."""
    peer = world.tls12(listener)
    peer.send_hello()
    peer.hear_answer()
    peer.seal(HANDSHAKE, hello.message(CLIENT_KEY_EXCHANGE, body))
    return peer.outcome()


@case("RFC 5246 7.4.9", "tls12: a wrong Finished", "decrypt_error")
def wrong_finished_12(world):
    peer = world.tls12().until_finished()
    peer.seal(HANDSHAKE, hello.message(FINISHED, bytes(12)))
    return peer.outcome()


for name, body in (("short", bytes(11)), ("long", bytes(13))):

    @case(
        "RFC 5246 7.2.2",
        f"tls12: a Finished that is too {name}",
        "decrypt_error",
        rfc="decode_error",
        why="rustls compares it without a look at its length",
    )
    def finished_length_12(world, body=body):
        peer = world.tls12().until_finished()
        peer.seal(HANDSHAKE, hello.message(FINISHED, body))
        return peer.outcome()


@case("RFC 5246 7.2.2", "tls12: application data in place of the Finished", "unexpected_message")
def data_12(world):
    peer = world.tls12().until_finished()
    peer.ask()
    return peer.outcome()


@case("RFC 5246 7.2.2", "tls12: a Finished under other keys", "bad_record_mac")
def other_keys_12(world):
    peer = world.tls12()
    peer.send_hello()
    peer.hear_answer()
    peer.say(peer.key_exchange())
    peer.premaster = bytes(32)
    peer.derive_keys()
    peer.change_cipher_spec()
    peer.say(peer.finished())
    return peer.outcome()


@case("RFC 5246 7.4.7", "tls12: no ClientKeyExchange", "unexpected_message")
def no_exchange_12(world):
    peer = world.tls12()
    peer.send_hello()
    peer.hear_answer()
    peer.seal(HANDSHAKE, hello.message(FINISHED, bytes(12)))
    return peer.outcome()


@case("RFC 5246 7.4", "tls12: a second hello in place of the ClientKeyExchange", "unexpected_message")
def second_hello_12(world):
    peer = world.tls12()
    peer.send_hello()
    peer.hear_answer()
    peer.seal(HANDSHAKE, hello.tls12().message())
    return peer.outcome()


@case("RFC 5246 7.4.6", "tls12: a certificate that was not asked for", "unexpected_message")
def certificate_12(world):
    peer = world.tls12()
    peer.send_hello()
    peer.hear_answer()
    peer.seal(HANDSHAKE, hello.message(CERTIFICATE, bytes(3)))
    return peer.outcome()


@case("RFC 5246 7.4.6", "tls12: a client that is asked for a certificate and has none", "served")
def asked_12(world):
    peer = world.tls12("asks")
    peer.send_hello()
    peer.hear_answer()
    peer.say(hello.message(CERTIFICATE, bytes(3)))
    peer.go_on()
    return peer.served()


@case("RFC 5246 7.2.2", "tls12: an empty ClientKeyExchange", "decode_error")
def empty_12(world):
    return exchanged(world, b"")


@case("RFC 8422 5.7", "tls12: an empty point", "decode_error")
def empty_point_12(world):
    return exchanged(world, b"\0")


@case("RFC 5246 7.2.2", "tls12: a byte behind the point", "decode_error")
def trailing_12(world):
    return exchanged(world, counted(1, bytes([9]) * 32) + b"\0")


@case("RFC 8422 5.11", "tls12: a point of the wrong length", "illegal_parameter")
def short_point_12(world):
    return exchanged(world, counted(1, bytes([9]) * 31))


@case("RFC 8422 5.11", "tls12: a point that makes the secret all zeros", "illegal_parameter")
def zero_point_12(world):
    return exchanged(world, counted(1, bytes(32)))


@case("RFC 8422 5.7", "tls12: a point that is not on its curve", "illegal_parameter")
def no_point_12(world):
    peer = world.tls12()
    peer.send_hello(peer.hello.put(hello.GROUPS, hello.words(hello.SECP256R1)))
    peer.hear_answer()
    peer.seal(HANDSHAKE, hello.message(CLIENT_KEY_EXCHANGE, counted(1, b"\4" + bytes([7]) * 64)))
    return peer.outcome()
