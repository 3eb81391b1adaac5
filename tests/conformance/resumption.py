"""Resumption by tickets (RFC 8446 sections 4.2.11 and 4.6.1; RFC 5077, RFC 7627 section 5.3)."""

import hello
from case import Group
from hello import counted

group = Group()
case = group.case


def resume(peer, ticket, psk, changed=None):
    """A handshake with a ticket: `resumed` or `full`, and the outcome of a request."""
    peer.hello = changed or peer.hello
    peer.send_hello(peer.offering(ticket, psk))
    peer.hear_answer()
    return peer.finish_as()


def flipped(data):
    return bytes([*data[:-1], data[-1] ^ 1])


@case("RFC 8446 4.2.11", "tls13: a ticket resumes", "resumed, served")
def works(world):
    return resume(world.tls13(), *world.tls13().connect().ticket())


@case(
    "RFC 8446 4.2.11",
    "tls13: a ticket resumes more than once, and its sessions have tickets of their own",
    "resumed, served",
)
def works_again(world):
    ticket = world.tls13().connect().ticket()
    resume(world.tls13(), *ticket)
    peer = world.tls13()
    resume(peer, *ticket)
    peer.tickets = peer.tickets[-1:]
    return resume(world.tls13(), *peer.ticket())


@case(
    "RFC 8446 4.6.1",
    "tls13: one ticket, good for twelve hours, with a nonce, and not for early data",
    "1, 43200, [], served",
)
def ticket_message(world):
    peer = world.tls13().connect()
    outcome = peer.served()
    ticket = peer.tickets[0]
    assert len(ticket.ticket_nonce) > 0
    return f"{len(peer.tickets)}, {ticket.ticket_lifetime}, {ticket.extensions}, {outcome}"


@case("RFC 8446 4.2.11, 6.2", "tls13: a wrong binder", "decrypt_error")
def wrong_binder(world):
    ticket, psk = world.tls13().connect().ticket()
    return resume(world.tls13(), ticket, flipped(psk))


@case("RFC 8446 4.2.11", "tls13: a ticket with a bit changed", "full, served")
def changed(world):
    ticket, psk = world.tls13().connect().ticket()
    return resume(world.tls13(), flipped(ticket), psk)


@case("RFC 8446 4.2.11", "tls13: a ticket that is empty but for one byte", "full, served")
def tiny(world):
    ticket, psk = world.tls13().connect().ticket()
    return resume(world.tls13(), b"?", psk)


@case("RFC 8446 4.2.11", "tls13: a ticket of another listener", "full, served")
def other_listener(world):
    ticket = world.tls13("both").connect().ticket()
    return resume(world.tls13(), *ticket)


@case("RFC 8446 4.2.11", "tls13: a ticket of another instance", "full, served")
def other_instance(world):
    ticket = world.tls13(instance=world.other).connect().ticket()
    return resume(world.tls13(), *ticket)


@case("RFC 8446 4.2.11", "tls13: a ticket of another server name", "full, served")
def other_name(world):
    ticket = world.tls13().connect().ticket()
    peer = world.tls13()
    return resume(peer, *ticket, peer.hello.put(hello.SERVER_NAME, counted(2, b"\0" + counted(2, b"other.test"))))


@case("RFC 8446 4.2.11", "tls13: a ticket of another hash than that of the suites", "full, served")
def other_hash(world):
    ticket = world.tls13().connect().ticket()
    peer = world.tls13()
    return resume(peer, *ticket, peer.hello.having(suites=[hello.AES_256]))


@case("RFC 8446 4.2.11", "tls13: a ticket of a suite with SHA-384 resumes", "resumed, served")
def sha384(world):
    first = world.tls13()
    first.hello = first.hello.having(suites=[hello.AES_256])
    ticket = first.connect().ticket()
    peer = world.tls13()
    return resume(peer, *ticket, peer.hello.having(suites=[hello.AES_256]))


@case("RFC 8446 4.2.9", "tls13: without fresh key exchange", "full, served")
def psk_alone(world):
    ticket = world.tls13().connect().ticket()
    peer = world.tls13()
    return resume(peer, *ticket, peer.hello.put(hello.PSK_MODES, counted(1, b"\0")))


@case("RFC 8446 4.2.9", "tls13: a client that takes no tickets with key exchange gets none", "0", "client_truncated")
def no_tickets(world):
    peer = world.tls13()
    peer.hello = peer.hello.put(hello.PSK_MODES, counted(1, b"\0"))
    peer.connect().served()
    return str(len(peer.tickets))


@case("RFC 8446 4.2.11", "tls13: a ticket of TLS 1.2", "full, served")
def of_tls12(world):
    first = world.tls12().connect()
    assert first.served() == "served"
    return resume(world.tls13(), first.ticket, bytes(32))


@case("RFC 8446 4.2.11", "tls13: an unknown ticket in front of a good one", "resumed, served")
def second_identity(world):
    ticket, psk = world.tls13().connect().ticket()
    peer = world.tls13()
    # The binder of the first is not looked at; that of the second covers both identities.
    peer.send_hello(peer.offering(ticket, psk, others=[b"unknown"]))
    peer.hear_answer()
    assert peer.server_hello.getExtension(hello.PRE_SHARED_KEY).selected == 1
    return peer.finish_as()


def resume12(world, change=lambda offered: offered, listener="public", instance=None):
    """A handshake of TLS 1.2 with the ticket of another."""
    first = world.tls12(listener, instance=instance).connect()
    assert first.served() == "served"
    peer = world.tls12(master=first.master)
    return peer.resume(change(peer.hello.put(hello.TICKET, first.ticket)))


@case("RFC 5077 3.1", "tls12: a ticket resumes", "resumed, served")
def works_12(world):
    return resume12(world)


@case("RFC 5077 3.1", "tls12: a ticket with a bit changed", "full, served")
def changed_12(world):
    def change(offered):
        (ticket,) = (content for number, content in offered.extensions if number == hello.TICKET)
        return offered.put(hello.TICKET, flipped(ticket))

    return resume12(world, change)


@case("RFC 5077 3.1", "tls12: a ticket of another listener", "full, served")
def other_listener_12(world):
    return resume12(world, listener="both")


@case("RFC 5077 3.1", "tls12: a ticket of another instance", "full, served")
def other_instance_12(world):
    return resume12(world, instance=world.other)


@case("RFC 5246 7.4.1.2", "tls12: a ticket of a suite that is not offered", "full, served")
def other_suite_12(world):
    return resume12(world, lambda offered: offered.having(suites=[hello.ECDSA_AES_256]))


@case("RFC 6066 3", "tls12: a ticket of another server name", "full, served")
def other_name_12(world):
    return resume12(
        world, lambda offered: offered.put(hello.SERVER_NAME, counted(2, b"\0" + counted(2, b"other.test")))
    )


# The standard names no alert.
@case("RFC 7627 5.3", "tls12: a session with extended master secret is not resumed without", "illegal_parameter")
def without_secret_12(world):
    return resume12(world, lambda offered: offered.without(hello.EXTENDED_MASTER_SECRET))


@case("RFC 7627 5.3", "tls12: a session without extended master secret is not resumed with it", "full, served")
def with_secret_12(world):
    first = world.tls12()
    first.hello = first.hello.without(hello.EXTENDED_MASTER_SECRET)
    first.connect()
    assert first.served() == "served"
    peer = world.tls12(master=first.master)
    return peer.resume(peer.hello.put(hello.TICKET, first.ticket))


@case("RFC 5246 7.4.1.2", "tls12: nothing is kept under session IDs", "full, served")
def session_id_12(world):
    first = world.tls12().connect()
    assert first.served() == "served" and first.server_hello.session_id == b""
    peer = world.tls12(master=first.master)
    return peer.resume(peer.hello.without(hello.TICKET))


@case("RFC 5077 3.4", "tls12: a client that takes no tickets gets none", "served, b''")
def no_tickets_12(world):
    peer = world.tls12()
    peer.hello = peer.hello.without(hello.TICKET)
    peer.connect()
    return f"{peer.served()}, {peer.ticket}"


@case("RFC 5246 7.4.9", "tls12: a wrong Finished of a resumed handshake", "decrypt_error")
def wrong_finished_12(world):
    first = world.tls12().connect()
    assert first.served() == "served"
    peer = world.tls12(master=first.master)
    peer.send_hello(peer.hello.put(hello.TICKET, first.ticket).having(session_id=b"?"))
    peer.hear_server_hello()
    peer.derive_keys()
    peer.hear_finished()
    peer.change_cipher_spec()
    peer.say(flipped(peer.finished()))
    return peer.outcome()
