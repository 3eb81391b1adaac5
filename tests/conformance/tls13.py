"""A client of TLS 1.3, one step at a time (RFC 8446 sections 4 and 7)."""

from tlslite.constants import CipherSuite
from tlslite.keyexchange import ECDHKeyExchange
from tlslite.messages import NewSessionTicket, ServerHello
from tlslite.utils.codec import Parser
from tlslite.utils.cryptomath import HKDF_expand_label, derive_secret, secureHMAC

import hello
from peer import HANDSHAKE, Ended, Peer

SERVER_HELLO, NEW_SESSION_TICKET, END_OF_EARLY_DATA, ENCRYPTED_EXTENSIONS = 2, 4, 5, 8
CERTIFICATE, CERTIFICATE_REQUEST, CERTIFICATE_VERIFY, FINISHED, KEY_UPDATE, MESSAGE_HASH = 11, 13, 15, 20, 24, 254
# The random of a ServerHello that is a HelloRetryRequest (section 4.1.3).
RETRY = bytes.fromhex("CF21AD74E59A6111BE1D8C021E65B891C2A211167ABB8C5E079E09E2C8A8339C")


class Tls13(Peer):
    """A connection of TLS 1.3 with key shares of these groups."""

    def __init__(self, port, groups=(hello.X25519,), psk=None):
        super().__init__(port)
        self.exchanges = {group: ECDHKeyExchange(group, (3, 4)) for group in groups}
        self.privates = {group: exchange.get_random_private_key() for group, exchange in self.exchanges.items()}
        self.psk = psk
        self.hello = hello.tls13(*self.shares())
        self.tickets = []

    def shares(self):
        return [
            (group, bytes(exchange.calc_public_value(self.privates[group])))
            for group, exchange in self.exchanges.items()
        ]

    def send_hello(self, changed=None):
        """Sends the hello, or this one instead."""
        self.hello = changed or self.hello
        self.transcript.update(self.hello.message())
        self.plain(HANDSHAKE, self.hello.message(), 0x0301)

    def hear_server_hello(self):
        """Reads a ServerHello and starts to read under its keys, unless it is a HelloRetryRequest."""
        before = self.transcript.copy()
        message = self.hear_message()
        self.server_hello = ServerHello().parse(Parser(bytearray(message[1:])))
        self.suite = self.server_hello.cipher_suite
        self.prf = "sha384" if self.suite in CipherSuite.sha384PrfSuites else "sha256"
        self.size = 48 if self.prf == "sha384" else 32
        if self.server_hello.random == RETRY:
            # The first hello becomes its hash (section 4.4.1).
            self.transcript = type(before)()
            self.transcript.update(hello.message(MESSAGE_HASH, before.digest(self.prf)))
            self.transcript.update(message)
            return
        self.layer.version = (3, 4)
        self.layer.tls13record = True
        self.derive_handshake_keys()
        self.layer.changeReadState()

    def is_retry(self):
        return self.server_hello.random == RETRY

    def is_resumed(self):
        return self.server_hello.getExtension(hello.PRE_SHARED_KEY) is not None

    def derive_handshake_keys(self):
        share = self.server_hello.getExtension(hello.KEY_SHARE).server_share
        shared = self.exchanges[share.group].calc_shared_key(self.privates[share.group], share.key_exchange)
        secret = secureHMAC(bytearray(self.size), self.psk if self.is_resumed() else bytearray(self.size), self.prf)
        secret = secureHMAC(derive_secret(secret, b"derived", None, self.prf), shared, self.prf)
        self.client_secret = derive_secret(secret, b"c hs traffic", self.transcript, self.prf)
        self.server_secret = derive_secret(secret, b"s hs traffic", self.transcript, self.prf)
        self.layer.calcTLS1_3PendingState(self.suite, self.client_secret, self.server_secret, None)
        secret = derive_secret(secret, b"derived", None, self.prf)
        self.master = secureHMAC(secret, bytearray(self.size), self.prf)

    def hear_flight(self):
        """Reads from the EncryptedExtensions to the Finished, which must be right."""
        kinds = []
        while not kinds or kinds[-1] != FINISHED:
            before = self.transcript.copy()
            message = self.hear_message()
            kinds.append(message[0])
        if message[4:] != self.verify_data(self.server_secret, before):
            raise Ended("a wrong Finished")
        self.layer.changeWriteState()
        # The server goes on under the keys of application data at once; we do so after our own Finished.
        self.application_secret = derive_secret(self.master, b"c ap traffic", self.transcript, self.prf)
        self.server_secret = derive_secret(self.master, b"s ap traffic", self.transcript, self.prf)
        self.layer.calcTLS1_3PendingState(self.suite, self.application_secret, self.server_secret, None)
        self.layer.changeReadState()
        return kinds

    def verify_data(self, secret, transcript):
        key = HKDF_expand_label(secret, b"finished", b"", self.size, self.prf)
        return bytes(secureHMAC(key, transcript.digest(self.prf), self.prf))

    def finished(self):
        return hello.message(FINISHED, self.verify_data(self.client_secret, self.transcript))

    def start_traffic(self):
        """Writes under the keys of application data, after our Finished (or what stands for it)."""
        self.client_secret = self.application_secret
        self.resumption = derive_secret(self.master, b"res master", self.transcript, self.prf)
        self.layer.changeWriteState()

    def hear_answer(self):
        """Reads what the server says to a hello that it accepts; the types of its messages, None for a retry."""
        self.hear_server_hello()
        return None if self.is_retry() else self.hear_flight()

    def until_finished(self):
        """All of the handshake up to our Finished, which is not sent."""
        self.send_hello()
        self.hear_answer()
        return self

    def offering(self, ticket, psk, early_data=False, others=()):
        """The hello with a pre-shared key and its binder (section 4.2.11.2), behind other tickets with binders of
        zeros."""
        prf, size = ("sha384", 48) if len(psk) == 48 else ("sha256", 32)
        identities = hello.counted(2, b"".join(hello.counted(2, each) + bytes(4) for each in (*others, ticket)))
        unknown = hello.counted(1, bytes(size)) * len(others)
        binders = hello.counted(2, unknown + hello.counted(1, bytes(size)))
        changed = self.hello.without(hello.PRE_SHARED_KEY)
        if early_data:
            changed = changed.put(hello.EARLY_DATA, b"")
        changed = changed.put(hello.PRE_SHARED_KEY, identities + binders)
        transcript = self.transcript.copy()
        transcript.update(changed.message()[: -len(binders)])
        binder_key = derive_secret(secureHMAC(bytearray(size), psk, prf), b"res binder", None, prf)
        key = HKDF_expand_label(binder_key, b"finished", b"", size, prf)
        binder = bytes(secureHMAC(key, transcript.digest(prf), prf))
        self.psk = psk
        return changed.put(hello.PRE_SHARED_KEY, identities + hello.counted(2, unknown + hello.counted(1, binder)))

    def finish(self):
        """Sends our Finished."""
        self.say(self.finished())
        self.start_traffic()
        return self

    def finish_as(self):
        """The end of the handshake, and which kind it was of."""
        return f"{'resumed' if self.is_resumed() else 'full'}, {self.finish().served()}"

    def connect(self):
        return self.until_finished().finish()

    def hear_late(self, message):
        if message[0] == NEW_SESSION_TICKET:
            self.tickets.append(NewSessionTicket().parse(Parser(bytearray(message[1:]))))
        elif message[0] == KEY_UPDATE:
            self.hear_key_update(message)
        else:
            raise Ended(f"a message of type {message[0]} after the handshake")

    def hear_key_update(self, message):
        self.key_updates = getattr(self, "key_updates", []) + [message[4:]]
        self.client_secret, self.server_secret = self.layer.calcTLS1_3KeyUpdate_sender(
            self.suite, self.client_secret, self.server_secret
        )

    def update_key(self, requested):
        """Says that our key changes, and changes it."""
        self.seal(HANDSHAKE, hello.message(KEY_UPDATE, bytes([requested])))
        self.change_key()

    def change_key(self):
        self.client_secret, self.server_secret = self.layer.calcTLS1_3KeyUpdate_reciever(
            self.suite, self.client_secret, self.server_secret
        )

    def ticket(self):
        """The ticket and its key, once the server has sent one."""
        assert self.served() == "served"
        (ticket,) = self.tickets
        psk = HKDF_expand_label(self.resumption, b"resumption", ticket.ticket_nonce, self.size, self.prf)
        return bytes(ticket.ticket), psk
