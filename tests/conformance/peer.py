"""A client's connection, driven record by record. Keys and records are those of tlslite-ng; what is said, and in which
order and pieces, is up to the case."""

import socket

from tlslite.constants import AlertDescription
from tlslite.errors import TLSAbruptCloseError
from tlslite.handshakehashes import HandshakeHashes
from tlslite.messages import Message
from tlslite.recordlayer import RecordLayer

from hello import counted, number
from process import PATIENCE

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA = 20, 21, 22, 23
RECORD_MAX = 2**14
PING, PONG = b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"
CLOSE_NOTIFY = b"\1\0"


class Ended(Exception):
    """The server has ended the connection; the text says how, in the words of a case's outcome."""


class Wire:
    """A socket whose sending can be held back."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = self.socket.getsockname()[1]
        self.held = None

    def send(self, data):
        if self.held is None:
            self.socket.sendall(data)
        else:
            self.held += data
        return len(data)

    def recv(self, size):
        return self.socket.recv(size)

    def hold(self):
        self.held = bytearray()

    def take(self):
        """What was held back, not sent."""
        held, self.held = bytes(self.held), None
        return held


class Peer:
    """The connection before anything is agreed on."""

    def __init__(self, port):
        self.wire = Wire(port)
        self.layer = RecordLayer(self.wire)
        self.layer.version = (3, 3)
        self.transcript = HandshakeHashes()
        self.messages = bytearray()
        self.warnings = []

    def raw(self, data):
        """Sends bytes as they are."""
        self.wire.send(data)

    def plain(self, kind, body, version=0x0303):
        """Sends a record that is not encrypted, whatever was agreed on."""
        self.raw(number(kind, 1) + number(version, 2) + counted(2, body))

    def seal(self, kind, body, padding=0):
        """Sends a record under the keys of the moment, in TLS 1.3 with so many bytes of padding."""
        self.layer.padding_cb = lambda *_: padding
        for _ in self.layer.sendRecord(Message(kind, bytearray(body))):
            pass

    def say(self, *messages):
        """Sends handshake messages, each in a record of its own."""
        for message in messages:
            self.transcript.update(message)
            self.seal(HANDSHAKE, message)

    def together(self, say):
        """Has what `say` sends leave in one piece."""
        self.wire.hold()
        say()
        self.raw(self.wire.take())

    def hear(self):
        """The next record as kind and content. Fatal alerts, and the end of the connection, raise [`Ended`]."""
        while True:
            try:
                for heard in self.layer.recvRecord():
                    if heard not in (0, 1):
                        break
            except TLSAbruptCloseError:
                raise Ended("end without alert") from None
            except ConnectionResetError:
                raise Ended("reset") from None
            header, parser = heard
            content = bytes(parser.bytes)
            if header.type != ALERT:
                return header.type, content
            if content[0] == 1 and content != CLOSE_NOTIFY:
                self.warnings.append(AlertDescription.toRepr(content[1]))
            else:
                self.hear_end(content)

    def hear_end(self, alert):
        """Raises what an alert says, once the connection has ended behind it."""
        name = AlertDescription.toRepr(alert[1])
        try:
            rest = self.wire.recv(1)
        except ConnectionResetError:
            rest = b""
        raise Ended(name if not rest else f"{name} and more behind it")

    def hear_message(self):
        """The next handshake message, whole, and now in the transcript."""
        while len(self.messages) < 4 or len(self.messages) < 4 + int.from_bytes(self.messages[1:4], "big"):
            kind, content = self.hear()
            if kind == HANDSHAKE:
                self.messages += content
            elif kind != CHANGE_CIPHER_SPEC:
                raise Ended(f"a record of type {kind} in the handshake")
        length = 4 + int.from_bytes(self.messages[1:4], "big")
        message = bytes(self.messages[:length])
        del self.messages[:length]
        self.transcript.update(message)
        return message

    def ask(self, request=PING):
        """Sends a request."""
        self.seal(APPLICATION_DATA, request)

    def reply(self):
        """The next bytes of the server behind ringwall."""
        while True:
            kind, content = self.hear()
            if kind == APPLICATION_DATA and content:
                return content
            if kind == HANDSHAKE:
                self.hear_late(content)

    def hear_late(self, message):
        """Told of each handshake message after the handshake."""

    def outcome(self):
        """How the server takes what was sent: `served`, when it answers a request, else how it ends the connection."""
        try:
            reply = self.reply()
        except Ended as end:
            return str(end)
        return "served" if reply == PONG else f"served {reply!r}"

    def served(self):
        """Asks for something, and whether there is an answer, as [`Peer.outcome`]."""
        try:
            self.ask()
        except ConnectionError:
            # The answer to what came before may still be there.
            pass
        return self.outcome()

    def served_times(self, times):
        """The outcome of so many requests."""
        replies = b""
        while len(replies) < times * len(PONG):
            replies += self.reply()
        return "served" if replies == times * PONG else f"served {replies!r}"

    def close(self):
        self.wire.socket.close()
