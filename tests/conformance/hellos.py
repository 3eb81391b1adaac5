"""Hellos that are malformed, or that a server must refuse (RFC 8446 sections 4.1.2, 4.2, 9.2; RFC 5246, 7.4.1)."""

import hello
from case import Group
from hello import counted, number, words
from peer import HANDSHAKE, Ended

group = Group()
case = group.case


def sent(world, message, version=0x0301):
    """The outcome of a hello as bytes."""
    peer = world.peers[-1]
    peer.plain(HANDSHAKE, message, version)
    peer.transcript.update(message)
    peer.hear_answer()
    return "accepted"


def tls13(world):
    return world.tls13().hello


def tls12(world):
    return world.tls12().hello


OFFERS = (("tls13", tls13), ("tls12", tls12))

for name, offer in OFFERS:

    @case("RFC 8446 4.1.2", f"{name}: a hello as it should be", "accepted")
    def good(world, offer=offer):
        return world.answer(offer(world))

    @case("RFC 8446 4.2", f"{name}: unknown extensions are ignored", "accepted")
    def unknown_extensions(world, offer=offer):
        return world.answer(offer(world).put(0xFAFA, b"").put(0x1234, bytes(300)))

    @case("RFC 8446 4.1.2", f"{name}: unknown cipher suites are ignored", "accepted")
    def unknown_suites(world, offer=offer):
        changed = offer(world)
        return world.answer(changed.having(suites=[0xFAFA, 0x0000, *changed.suites, 0xFEFE]))

    @case("RFC 8446 4.2.7", f"{name}: unknown groups are ignored", "accepted")
    def unknown_groups(world, offer=offer):
        return world.answer(offer(world).put(hello.GROUPS, words(0xFAFA, hello.X448, hello.X25519)))

    @case("RFC 8446 4.1.1", f"{name}: no known cipher suite", "handshake_failure")
    def only_unknown_suites(world, offer=offer):
        return world.answer(offer(world).having(suites=[0xFAFA, 0xC0FF]))

    # RSA key exchange, CBC, RC4, 3DES, export, NULL, anonymous: everything that is broken.
    @case("RFC 8446 4.1.1", f"{name}: broken cipher suites only", "handshake_failure")
    def broken_suites(world, offer=offer):
        return world.answer(offer(world).having(suites=[0x002F, 0x009C, 0xC009, 0xC013, 5, 10, 3, 2, 0x0034, 0xC018]))

    @case("RFC 8446 6.2", f"{name}: no cipher suites", "decode_error")
    def no_suites(world, offer=offer):
        return world.answer(offer(world).having(suites=[]))

    @case("RFC 8446 4.2.7, RFC 8422 5.1", f"{name}: no known group", "handshake_failure")
    def only_unknown_groups(world, offer=offer):
        return world.answer(
            offer(world).put(hello.GROUPS, words(0xFAFA, hello.FFDHE2048)).put(hello.KEY_SHARE, counted(2, b""))
        )

    @case("RFC 8446 4.2.3", f"{name}: no known signature algorithm", "handshake_failure")
    def only_unknown_signatures(world, offer=offer):
        return world.answer(offer(world).put(hello.SIGNATURES, words(0xFAFA, 0x0201)))

    @case("RFC 8446 4.2", f"{name}: an extension twice", "illegal_parameter")
    def twice(world, offer=offer):
        changed = offer(world)
        changed.extensions.append((hello.SIGNATURES, words(0x0403)))
        return world.answer(changed)

    @case("RFC 8446 4.2", f"{name}: an unknown extension twice", "illegal_parameter")
    def unknown_twice(world, offer=offer):
        changed = offer(world)
        changed.extensions += [(0xFAFA, b""), (0xFAFA, b"")]
        return world.answer(changed)

    @case("RFC 8446 4.1.2, RFC 5246 7.4.1.2", f"{name}: no null compression", "illegal_parameter")
    def no_null(world, offer=offer):
        return world.answer(offer(world).having(compressions=b"\1"))

    @case("RFC 8446 6.2", f"{name}: no compression methods at all", "decode_error")
    def no_compressions(world, offer=offer):
        return world.answer(offer(world).having(compressions=b""))

    @case("RFC 8446 4.1.2", f"{name}: a session ID of 33 bytes", "decode_error")
    def long_session_id(world, offer=offer):
        return world.answer(offer(world).having(session_id=bytes(33)))

    @case("RFC 8446 6.2", f"{name}: a byte behind the extensions", "decode_error")
    def trailing(world, offer=offer):
        return sent(world, hello.message(hello.CLIENT_HELLO, offer(world).body() + b"\0"))

    for change, what in ((1, "long"), (-1, "short")):

        @case("RFC 8446 6.2", f"{name}: a length of all extensions that is one too {what}", "decode_error")
        def extensions_length(world, offer=offer, change=change):
            hello_of = offer(world)
            body = bytearray(hello_of.body())
            at = len(hello_of.head())
            body[at : at + 2] = number(len(body) - at - 2 + change, 2)
            return sent(world, hello.message(hello.CLIENT_HELLO, bytes(body)))

    @case("RFC 8446 6.2", f"{name}: an extension that is longer than what is left", "decode_error")
    def extension_length(world, offer=offer):
        body = offer(world).put(0xFAFA, b"").body()
        return sent(world, hello.message(hello.CLIENT_HELLO, body[:-2] + b"\0\1"))

    @case("RFC 8446 6.2", f"{name}: one byte of a length of extensions", "decode_error")
    def half_length(world, offer=offer):
        return sent(world, hello.message(hello.CLIENT_HELLO, offer(world).head() + b"\0"))

    @case("RFC 8446 6.2", f"{name}: a cipher suite of one byte", "decode_error")
    def half_suite(world, offer=offer):
        changed = offer(world)
        body = changed.body()
        suites = words(*changed.suites)
        return sent(world, hello.message(hello.CLIENT_HELLO, body.replace(suites, counted(2, suites[2:] + b"\0"))))

    @case("RFC 8446 4.2.3", f"{name}: a list of signature algorithms with an odd length", "decode_error")
    def half_signature(world, offer=offer):
        return world.answer(offer(world).put(hello.SIGNATURES, b"\0\3\4\3\4"))

    @case("RFC 8446 4.2.3", f"{name}: an empty list of signature algorithms", "decode_error")
    def no_signatures(world, offer=offer):
        return world.answer(offer(world).put(hello.SIGNATURES, b"\0\0"))

    @case("RFC 8446 4.2.7", f"{name}: an empty list of groups", "decode_error")
    def no_groups(world, offer=offer):
        return world.answer(offer(world).put(hello.GROUPS, b"\0\0"))

    @case("RFC 6066 3", f"{name}: a byte behind the server name", "decode_error")
    def name_trailing(world, offer=offer):
        return world.answer(offer(world).put(hello.SERVER_NAME, counted(2, b"\0" + counted(2, b"localhost")) + b"\0"))

    @case("RFC 6066 3", f"{name}: an empty server name", "decode_error")
    def name_empty(world, offer=offer):
        return world.answer(offer(world).put(hello.SERVER_NAME, counted(2, b"\0" + counted(2, b""))))

    @case("RFC 6066 3", f"{name}: an empty list of server names", "decode_error")
    def names_empty(world, offer=offer):
        return world.answer(offer(world).put(hello.SERVER_NAME, counted(2, b"")))

    @case("RFC 6066 3", f"{name}: a server name that is none", "illegal_parameter")
    def name_strange(world, offer=offer):
        return world.answer(offer(world).put(hello.SERVER_NAME, counted(2, b"\0" + counted(2, b"local host\xff"))))

    @case("RFC 6066 3", f"{name}: an address in place of a server name is as none", "accepted")
    def name_address(world, offer=offer):
        return world.answer(offer(world).put(hello.SERVER_NAME, counted(2, b"\0" + counted(2, b"127.0.0.1"))))

    @case("RFC 7301 3.1", f"{name}: an empty protocol name", "decode_error")
    def protocol_empty(world, offer=offer):
        return world.answer(offer(world).put(hello.ALPN, counted(2, counted(1, b""))))

    @case("RFC 6520", f"{name}: a heartbeat is not spoken", "accepted")
    def heartbeat(world, offer=offer):
        return world.answer(offer(world).put(hello.HEARTBEAT, b"\1"))

    @case("RFC 8446 4", f"{name}: another message in place of the hello", "unexpected_message")
    def not_a_hello(world, offer=offer):
        return sent(world, hello.message(20, offer(world).body()))

    @case("RFC 8446 4", f"{name}: a message of an unknown type in place of the hello", "unexpected_message")
    def unknown_message(world, offer=offer):
        return sent(world, hello.message(99, offer(world).body()))

    @case("RFC 8446 6.2", f"{name}: a hello that is cut within its random", "decode_error")
    def cut_random(world, offer=offer):
        return sent(world, hello.message(hello.CLIENT_HELLO, offer(world).body()[:20]))

    @case("RFC 8446 6.2", f"{name}: an empty hello", "decode_error")
    def empty(world, offer=offer):
        offer(world)
        return sent(world, hello.message(hello.CLIENT_HELLO, b""))

    @case("RFC 8446 5.1", f"{name}: a hello as long as three bytes can tell", "decode_error")
    def longest(world, offer=offer):
        return sent(world, b"\1\xff\xff\xff" + offer(world).body())

    @case("RFC 8446 5.1", f"{name}: a second hello behind the first", "unexpected_message")
    def second(world, offer=offer):
        return sent(world, 2 * offer(world).message())


@case("RFC 8446 6.2", "a hello that is cut at any byte, with lengths that hide it", "decode_error")
def cut(world):
    body = tls13(world).body()
    outcomes = set()
    # A hello may end where its extensions would begin: it is then one of TLS 1.2 without any.
    head = len(tls13(world).head())
    for length in set(range(len(body))) - {head}:
        world.tls13()
        try:
            outcomes.add(sent(world, hello.message(hello.CLIENT_HELLO, body[:length])))
        except Ended as end:
            outcomes.add(str(end))
    return ", ".join(outcomes)


@case(
    "RFC 8446 4.1.2, D.2", "a hello that says TLS 1.3 or more as its legacy version alone is one of TLS 1.2", "accepted"
)
def legacy_version_high(world):
    return world.answer(tls12(world).having(legacy_version=0x0304))


for old in (0x0002, 0x0200, 0x0300, 0x0301, 0x0302):

    @case(
        "RFC 8446 4.1.2, D.2; RFC 5246 E.1", f"a hello that offers at most the version {old:#06x}", "protocol_version"
    )
    def legacy_version_low(world, old=old):
        return world.answer(tls12(world).having(legacy_version=old))


@case("RFC 8446 4.2.1", "with the versions listed, the legacy version does not count", "accepted")
def legacy_version_ignored(world):
    return world.answer(tls13(world).having(legacy_version=0x0301))


@case("RFC 8446 4.2.1", "versions that are not known", "protocol_version")
def unknown_versions(world):
    return world.answer(tls13(world).put(hello.VERSIONS, hello.versions(0xFAFA, 0x0302, 0x0305)))


@case("RFC 8446 4.2.1", "TLS 1.2 in the list of versions", "accepted")
def listed_tls12(world):
    return world.answer(tls12(world).put(hello.VERSIONS, hello.versions(0xFAFA, 0x0303)))


@case("RFC 8446 4.2.1", "an empty list of versions", "decode_error")
def no_versions(world):
    return world.answer(tls13(world).put(hello.VERSIONS, hello.versions()))


@case("RFC 8446 4.2.1", "a list of versions with an odd length", "decode_error")
def half_versions(world):
    return world.answer(tls13(world).put(hello.VERSIONS, b"\3\3\4\3"))


@case("RFC 8446 4.2.3", "tls13: signature algorithms for another kind of key only", "handshake_failure")
def other_signatures(world):
    return world.answer(tls13(world).put(hello.SIGNATURES, words(0x0804, 0x0807)))


@case(
    "RFC 5246 7.4.1.4.1",
    "tls12: signature algorithms for another kind of key only",
    "decode_error",
    rfc="handshake_failure",
    why="rustls ends without an alert here, and ringwall can make it send none but this",
)
def other_signatures_12(world):
    return world.answer(tls12(world).put(hello.SIGNATURES, words(0x0804, 0x0807)))


@case("RFC 8446 4.1.2", "tls13: two compression methods", "illegal_parameter")
def two_compressions(world):
    return world.answer(tls13(world).having(compressions=b"\1\0"))


@case("RFC 5246 7.4.1.2", "tls12: two compression methods, one of them null", "accepted")
def two_compressions_12(world):
    return world.answer(tls12(world).having(compressions=b"\1\0"))


for extension, name in (
    (hello.SIGNATURES, "signature_algorithms"),
    (hello.GROUPS, "supported_groups"),
    (hello.KEY_SHARE, "key_share"),
):

    @case(
        "RFC 8446 9.2",
        f"tls13: no {name}",
        "handshake_failure",
        rfc="missing_extension",
        why="rustls counts it as nothing in common",
    )
    def missing(world, extension=extension):
        return world.answer(tls13(world).without(extension))


@case("RFC 8446 4.2", "tls13: a hello without any extensions is one of TLS 1.2", "handshake_failure")
def no_extensions(world):
    return sent(world, hello.message(hello.CLIENT_HELLO, tls13(world).head()))


@case("RFC 5246 7.4.1.4.1", "tls12: no signature_algorithms, which stands for SHA-1", "handshake_failure")
def no_signatures_12(world):
    return world.answer(tls12(world).without(hello.SIGNATURES))


@case(
    "RFC 8422 4",
    "tls12: no supported_groups, which leaves the choice to the server",
    "handshake_failure",
    rfc="accepted",
    why="rustls wants the client to name its groups",
)
def no_groups_12(world):
    return world.answer(tls12(world).without(hello.GROUPS))


@case(
    "RFC 8422 5.1",
    "tls12: groups without that of the server's key",
    "accepted",
    rfc="handshake_failure",
    why="rustls takes the list for one of key exchange alone, as it is in TLS 1.3",
)
def key_group_12(world):
    return world.answer(tls12(world).put(hello.GROUPS, words(hello.X25519)))


@case("RFC 8422 5.1.2", "tls12: compressed points only", "illegal_parameter")
def compressed_points(world):
    return world.answer(tls12(world).put(hello.POINT_FORMATS, b"\1\1"))


@case("RFC 5746 3.6", "tls12: the SCSV in place of renegotiation_info", "accepted")
def scsv(world):
    changed = tls12(world).without(hello.RENEGOTIATION_INFO)
    outcome = world.answer(changed.having(suites=[*changed.suites, hello.RENEGOTIATION_SCSV]))
    assert bytes(world.peers[-1].server_hello.getExtension(hello.RENEGOTIATION_INFO).renegotiated_connection) == b""
    return outcome


@case(
    "RFC 5746 3.6",
    "tls12: a renegotiation_info that is not empty",
    "accepted",
    rfc="handshake_failure",
    why="rustls never renegotiates and does not look into it; the client finds an empty answer and must end",
)
def renegotiation_info(world):
    return world.answer(tls12(world).put(hello.RENEGOTIATION_INFO, counted(1, bytes(12))))


@case(
    "RFC 7507 3",
    "the fallback SCSV in a hello of TLS 1.2, where the server has TLS 1.3",
    "accepted",
    rfc="inappropriate_fallback",
    why="rustls does not know it; what it is for, the server's random does (RFC 8446 4.1.3)",
)
def fallback(world):
    changed = tls12(world)
    return world.answer(changed.having(suites=[*changed.suites, hello.FALLBACK_SCSV]))


@case("RFC 7507 3", "the fallback SCSV in a hello of TLS 1.3", "accepted")
def no_fallback(world):
    changed = tls13(world)
    return world.answer(changed.having(suites=[*changed.suites, hello.FALLBACK_SCSV]))


@case("RFC 8446 4.1.3", "tls12: the server's random says that it knows TLS 1.3", "DOWNGRD\\x01", "handshake_aborted")
def downgrade(world):
    peer = world.tls12()
    peer.send_hello()
    peer.hear_server_hello()
    return repr(bytes(peer.server_hello.random[24:]))[2:-1]


@case("RFC 8446 4.2.8", "tls13: a key share of the wrong length", "illegal_parameter")
def short_share(world):
    return world.answer(tls13(world).put(hello.KEY_SHARE, hello.shares((hello.X25519, bytes(31)))))


@case("RFC 8446 4.2.8.2, 7.4.2", "tls13: a key share that makes the secret all zeros", "illegal_parameter")
def zero_share(world):
    return world.answer(tls13(world).put(hello.KEY_SHARE, hello.shares((hello.X25519, bytes(32)))))


@case("RFC 8446 4.2.8.2", "tls13: a key share that is not on its curve", "illegal_parameter")
def no_point(world):
    changed = tls13(world).put(hello.GROUPS, words(hello.SECP256R1))
    return world.answer(changed.put(hello.KEY_SHARE, hello.shares((hello.SECP256R1, b"\4" + bytes([7]) * 64))))


@case("RFC 8446 4.2.8", "tls13: an empty key share", "decode_error")
def empty_share(world):
    return world.answer(tls13(world).put(hello.KEY_SHARE, hello.shares((hello.X25519, b""))))


@case("RFC 8446 4.2.8", "tls13: two key shares of one group", "illegal_parameter")
def two_shares(world):
    share = world.tls13().shares()[0]
    return world.answer(hello.tls13(share, share))


@case(
    "RFC 8446 4.2.8",
    "tls13: a key share of a group that is not offered, which a server may refuse, is passed over",
    "retry",
)
def share_not_offered(world):
    return world.answer(tls13(world).put(hello.GROUPS, words(hello.SECP384R1)))


@case("RFC 8446 4.2.8", "tls13: key shares in another order than the groups, which a server may refuse", "accepted")
def shares_disordered(world):
    peer = world.tls13(groups=(hello.SECP256R1, hello.X25519))
    return world.answer(peer.hello)


@case("RFC 8446 4.2.9", "tls13: a pre_shared_key without psk_key_exchange_modes", "missing_extension")
def no_modes(world):
    offered = counted(2, counted(2, b"ticket") + bytes(4)) + counted(2, counted(1, bytes(32)))
    return world.answer(tls13(world).without(hello.PSK_MODES).put(hello.PRE_SHARED_KEY, offered))


@case("RFC 8446 4.2.11", "tls13: a pre_shared_key that is not the last extension", "illegal_parameter")
def psk_not_last(world):
    offered = counted(2, counted(2, b"ticket") + bytes(4)) + counted(2, counted(1, bytes(32)))
    return world.answer(tls13(world).put(hello.PRE_SHARED_KEY, offered).put(0xFAFA, b""))


@case("RFC 8446 4.2.11", "tls13: a pre_shared_key with more identities than binders", "illegal_parameter")
def psk_unequal(world):
    identity = counted(2, b"ticket") + bytes(4)
    offered = counted(2, 2 * identity) + counted(2, counted(1, bytes(32)))
    return world.answer(tls13(world).put(hello.PRE_SHARED_KEY, offered))


@case(
    "RFC 8446 4.2.11",
    "tls13: a binder of 31 bytes for an unknown ticket",
    "accepted",
    rfc="decode_error",
    why="a binder has 32 bytes at least; rustls compares those of tickets that it knows, and passes over the others",
)
def psk_short_binder(world):
    offered = counted(2, counted(2, b"ticket") + bytes(4)) + counted(2, counted(1, bytes(31)))
    return world.answer(tls13(world).put(hello.PRE_SHARED_KEY, offered))


@case("RFC 8446 4.2.11", "tls13: no identities", "decode_error")
def psk_empty(world):
    return world.answer(tls13(world).put(hello.PRE_SHARED_KEY, counted(2, b"") + counted(2, counted(1, bytes(32)))))


@case("RFC 8446 4.2.2", "tls13: a cookie that nobody gave is passed over", "accepted")
def cookie(world):
    return world.answer(tls13(world).put(hello.COOKIE, counted(2, b"cookie")))


@case("RFC 5246 E.2", "a hello in the format of SSL 2", "decode_error")
def ssl2(world):
    peer = world.peer()
    body = b"\1\3\3" + number(3, 2) + number(0, 2) + number(16, 2) + b"\0\xc0\x2b" + bytes(16)
    peer.raw(number(0x8000 | len(body), 2) + body)
    return peer.outcome()
