"""A client of TLS 1.2, one step at a time (RFC 5246 section 7)."""

from tlslite.keyexchange import ECDHKeyExchange
from tlslite.mathtls import calc_key
from tlslite.messages import ServerHello, ServerKeyExchange
from tlslite.utils.codec import Parser

import hello
from peer import CHANGE_CIPHER_SPEC, HANDSHAKE, Ended, Peer

HELLO_REQUEST, SERVER_HELLO, NEW_SESSION_TICKET, CERTIFICATE, SERVER_KEY_EXCHANGE = 0, 2, 4, 11, 12
SERVER_HELLO_DONE, CLIENT_KEY_EXCHANGE, FINISHED = 14, 16, 20


class Tls12(Peer):
    """A connection of TLS 1.2."""

    def __init__(self, port, master=None):
        super().__init__(port)
        self.hello = hello.tls12()
        self.master = master
        self.ticket = b""

    def send_hello(self, changed=None):
        self.hello = changed or self.hello
        self.transcript.update(self.hello.message())
        self.plain(HANDSHAKE, self.hello.message(), 0x0301)

    def hear_server_hello(self):
        message = self.hear_message()
        self.server_hello = ServerHello().parse(Parser(bytearray(message[1:])))
        self.suite = self.server_hello.cipher_suite

    def hear_answer(self):
        """Reads from the ServerHello to the ServerHelloDone and computes the keys."""
        self.hear_server_hello()
        return self.hear_flight()

    def hear_flight(self):
        """Reads what follows the ServerHello."""
        kinds = [SERVER_HELLO]
        while kinds[-1] != SERVER_HELLO_DONE:
            message = self.hear_message()
            kinds.append(message[0])
            if message[0] == SERVER_KEY_EXCHANGE:
                exchange = ServerKeyExchange(self.suite, (3, 3)).parse(Parser(bytearray(message[1:])))
        group = ECDHKeyExchange(exchange.named_curve, (3, 3))
        private = group.get_random_private_key()
        self.public = bytes(group.calc_public_value(private))
        self.premaster = group.calc_shared_key(private, exchange.ecdh_Ys)
        return kinds

    def key_exchange(self):
        return hello.message(CLIENT_KEY_EXCHANGE, hello.counted(1, self.public))

    def derive_keys(self):
        """After our ClientKeyExchange, which the extended master secret covers (RFC 7627)."""
        if self.master is None:
            extended = self.server_hello.getExtension(hello.EXTENDED_MASTER_SECRET)
            label = b"extended master secret" if extended else b"master secret"
            self.master = calc_key(
                (3, 3),
                self.premaster,
                self.suite,
                label,
                self.transcript,
                self.hello.random,
                self.server_hello.random,
                output_length=48,
            )
        self.layer.calcPendingStates(self.suite, self.master, self.hello.random, self.server_hello.random, None)

    def verify_data(self, label):
        return bytes(calc_key((3, 3), self.master, self.suite, label, self.transcript, output_length=12))

    def finished(self):
        return hello.message(FINISHED, self.verify_data(b"client finished"))

    def change_cipher_spec(self):
        self.plain(CHANGE_CIPHER_SPEC, b"\1")
        self.layer.changeWriteState()

    def hear_finished(self):
        """Reads a ticket if there is one, the ChangeCipherSpec and the Finished, which must be right."""
        while True:
            kind, content = self.hear()
            if kind == CHANGE_CIPHER_SPEC:
                break
            if content[0] != NEW_SESSION_TICKET:
                raise Ended(f"a message of type {content[0]} before the Finished")
            self.transcript.update(content)
            self.ticket = content[10:]
        self.layer.changeReadState()
        expected = self.verify_data(b"server finished")
        if self.hear_message()[4:] != expected:
            raise Ended("a wrong Finished")

    def until_finished(self):
        """All of the handshake up to our Finished, which is not sent."""
        self.send_hello()
        self.hear_answer()
        self.say(self.key_exchange())
        self.derive_keys()
        self.change_cipher_spec()
        return self

    def go_on(self):
        """All that follows the server's flight."""
        self.say(self.key_exchange())
        self.derive_keys()
        self.change_cipher_spec()
        self.say(self.finished())
        self.hear_finished()

    def resume(self, changed):
        """Sends a hello with a ticket and does the handshake that the server then wants."""
        # The server repeats a session ID when it takes the ticket (RFC 5077 section 3.4).
        changed = changed.having(session_id=b"ticket taken")
        self.send_hello(changed)
        self.hear_server_hello()
        if self.server_hello.session_id != b"ticket taken":
            self.master = None
            self.hear_flight()
            self.go_on()
            return f"full, {self.served()}"
        self.derive_keys()
        self.hear_finished()
        self.change_cipher_spec()
        self.say(self.finished())
        return f"resumed, {self.served()}"

    def connect(self):
        self.send_hello()
        self.hear_answer()
        self.go_on()
        return self
