"""HelloRetryRequest and the second hello (RFC 8446 sections 4.1.2, 4.1.4)."""

import hello
from case import Group
from hello import counted, words
from peer import CHANGE_CIPHER_SPEC, HANDSHAKE
from tls13 import FINISHED

group = Group()
case = group.case


def retried(world, groups=(hello.X25519,)):
    """A client that has been asked for another hello, with key shares of these groups at hand."""
    peer = world.tls13(groups=groups)
    peer.send_hello(peer.hello.put(hello.KEY_SHARE, counted(2, b"")))
    peer.hear_server_hello()
    assert peer.is_retry()
    return peer


def second(peer, changed=None):
    """Sends the second hello: the first with the key share that was asked for, or another."""
    peer.send_hello(changed or peer.hello.put(hello.KEY_SHARE, hello.shares(*peer.shares())))
    if peer.hear_answer() is None:
        return "retry"
    return peer.finish().served()


for number, name in ((hello.X25519, "x25519"), (hello.SECP256R1, "secp256r1"), (hello.SECP384R1, "secp384r1")):

    @case("RFC 8446 4.1.4", f"a client that has {name} and shows no share is asked for it", "served")
    def asked(world, number=number):
        peer = world.tls13(groups=(number,))
        peer.send_hello(peer.hello.put(hello.KEY_SHARE, counted(2, b"")).put(hello.GROUPS, words(number)))
        peer.hear_server_hello()
        assert peer.is_retry()
        assert peer.server_hello.getExtension(hello.KEY_SHARE).selected_group == number
        return second(peer)


@case("RFC 8446 4.1.4", "a share of a group that the server does not have", "served")
def foreign_share(world):
    peer = world.tls13()
    changed = peer.hello.put(hello.GROUPS, words(hello.X448, hello.X25519))
    peer.send_hello(changed.put(hello.KEY_SHARE, hello.shares((hello.X448, bytes(56)))))
    peer.hear_server_hello()
    assert peer.is_retry()
    return second(peer)


# The order of the groups decides, not which shares are there: so a post-quantum group is used wherever there is one.
@case("RFC 8446 4.1.4", "a share of a group that the client likes less than another that both have", "retry")
def less_liked(world):
    return world.answer(world.tls13(groups=(hello.SECP384R1,)).hello)


@case("RFC 8446 4.1.4", "shares of two groups", "served")
def two_shares(world):
    return world.tls13(groups=(hello.X25519, hello.SECP384R1)).connect().served()


@case("RFC 8446 4.1.4", "the request repeats the session ID and says TLS 1.3", "session, 0x304", "handshake_aborted")
def request(world):
    peer = world.tls13()
    peer.send_hello(peer.hello.put(hello.KEY_SHARE, counted(2, b"")).having(session_id=b"session"))
    peer.hear_server_hello()
    major, minor = peer.server_hello.getExtension(hello.VERSIONS).version
    return f"{bytes(peer.server_hello.session_id).decode()}, {major << 8 | minor:#x}"


@case("RFC 8446 D.4", "a ChangeCipherSpec between the hellos", "served")
def change_cipher_spec(world):
    peer = retried(world)
    peer.plain(CHANGE_CIPHER_SPEC, b"\1")
    return second(peer)


@case("RFC 8446 4.1.4", "the second hello has no share again", "illegal_parameter")
def no_share(world):
    peer = retried(world)
    return second(peer, peer.hello)


@case("RFC 8446 4.1.4", "the second hello has a share of another group", "illegal_parameter")
def other_share(world):
    peer = retried(world, (hello.SECP256R1,))
    return second(peer)


@case(
    "RFC 8446 4.1.2, 9.2",
    "the second hello has no key_share",
    "handshake_failure",
    rfc="missing_extension",
    why="rustls counts it as nothing in common",
)
def no_extension(world):
    peer = retried(world)
    return second(peer, peer.hello.without(hello.KEY_SHARE))


@case("RFC 8446 4.1.4", "the second hello lacks the suite of the request", "illegal_parameter")
def other_suite(world):
    peer = retried(world)
    return second(peer, peer.hello.put(hello.KEY_SHARE, hello.shares(*peer.shares())).having(suites=[hello.CHACHA20]))


@case("RFC 8446 4.1.4", "the second hello lacks the suite and its hash", "illegal_parameter")
def other_hash(world):
    peer = retried(world)
    return second(peer, peer.hello.put(hello.KEY_SHARE, hello.shares(*peer.shares())).having(suites=[hello.AES_256]))


@case("RFC 8446 4.1.2", "the second hello lacks the group of the request", "illegal_parameter")
def other_group(world):
    peer = retried(world)
    changed = peer.hello.put(hello.KEY_SHARE, hello.shares(*peer.shares()))
    return second(peer, changed.put(hello.GROUPS, words(hello.SECP256R1)))


# The client must not change these; what the server does about it is left to it, and the transcript covers them.
for part, value in (("random", bytes(32)), ("session_id", b"changed")):

    @case("RFC 8446 4.1.2", f"the second hello has another {part}, which the server does not compare", "served")
    def changed_part(world, part=part, value=value):
        peer = retried(world)
        changed = peer.hello.put(hello.KEY_SHARE, hello.shares(*peer.shares()))
        return second(peer, changed.having(**{part: value}))


@case(
    "RFC 8446 4.1.2",
    "the second hello asks for another server name",
    "decode_error",
    rfc="illegal_parameter",
    why="rustls ends without an alert here, and ringwall can make it send none but this",
)
def other_name(world):
    peer = retried(world)
    changed = peer.hello.put(hello.KEY_SHARE, hello.shares(*peer.shares()))
    return second(peer, changed.put(hello.SERVER_NAME, counted(2, b"\0" + counted(2, b"other.test"))))


@case("RFC 8446 4.1.2", "the second hello is of TLS 1.2", "protocol_version")
def other_version(world):
    peer = retried(world)
    return second(peer, peer.hello.without(hello.VERSIONS))


@case("RFC 8446 4.1.2", "the second hello asks for early data", "illegal_parameter")
def early_data(world):
    peer = retried(world)
    return second(peer, peer.hello.put(hello.KEY_SHARE, hello.shares(*peer.shares())).put(hello.EARLY_DATA, b""))


@case("RFC 8446 4.1.4", "a Finished in place of the second hello", "unexpected_message")
def finished(world):
    peer = retried(world)
    peer.plain(HANDSHAKE, hello.message(FINISHED, bytes(32)))
    return peer.outcome()


@case("RFC 8446 4.1.4, 4.2.11.2", "a ticket resumes after a retry", "resumed, served")
def resumed(world):
    ticket, psk = world.tls13().connect().ticket()
    peer = world.tls13()
    peer.hello = peer.hello.put(hello.KEY_SHARE, counted(2, b""))
    peer.send_hello(peer.offering(ticket, psk))
    peer.hear_server_hello()
    assert peer.is_retry()
    peer.hello = peer.hello.put(hello.KEY_SHARE, hello.shares(*peer.shares()))
    peer.send_hello(peer.offering(ticket, psk))
    peer.hear_answer()
    return peer.finish_as()


@case("RFC 8446 4.2.11.2", "a binder over the second hello alone", "decrypt_error")
def binder_without_first(world):
    ticket, psk = world.tls13().connect().ticket()
    peer = retried(world)
    transcript, peer.transcript = peer.transcript, type(peer.transcript)()
    peer.hello = peer.hello.put(hello.KEY_SHARE, hello.shares(*peer.shares()))
    changed = peer.offering(ticket, psk)
    peer.transcript = transcript
    return second(peer, changed)


@case("RFC 8446 4.1.2", "the second hello withdraws the ticket", "missing_extension")
def withdrawn(world):
    ticket, psk = world.tls13().connect().ticket()
    peer = world.tls13()
    peer.hello = peer.hello.put(hello.KEY_SHARE, counted(2, b""))
    peer.send_hello(peer.offering(ticket, psk))
    peer.hear_server_hello()
    changed = peer.hello.without(hello.PRE_SHARED_KEY)
    return second(peer, changed.put(hello.KEY_SHARE, hello.shares(*peer.shares())))
