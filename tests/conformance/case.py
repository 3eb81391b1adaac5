"""Cases: what a client does, and what the standard says that the server does about it."""

from peer import Ended, Peer
from tls12 import Tls12
from tls13 import Tls13

# The reasons in the log where a case names none: its client closes the connection without close_notify.
DEFAULTS = {"served": "client_truncated", "accepted": "handshake_aborted", "retry": "handshake_aborted"}


class Case:
    """One expectation. `section` is where the standard says it. Where ringwall's outcome is another, `rfc` is what the
    standard says there, and `why` explains the difference."""

    def __init__(self, section, name, outcome, reason, rfc, why, act):
        self.section, self.name, self.outcome, self.rfc, self.why, self.act = section, name, outcome, rfc, why, act
        self.reason = reason or DEFAULTS.get(
            outcome.split(", ")[-1], DEFAULTS.get(outcome.split(", ")[0], "handshake_failed")
        )
        assert (rfc is None) == (why is None), f"{name}: a deviation has both what the standard says and why"

    def judge(self, world):
        """What was wrong, or None."""
        try:
            outcome = self.act(world)
        except Ended as end:
            outcome = str(end)
        except Exception as error:
            outcome = f"{type(error).__name__} in line {error.__traceback__.tb_next.tb_lineno}: {error}"
        # Every session ends, whatever was done to it, and is told of in the log.
        reasons = [session["reason"] for session in world.leave()]
        if outcome != self.outcome:
            return f"{outcome}, not {self.outcome}"
        if reasons and reasons[-1] != self.reason:
            return f"{outcome}; but the log says {reasons[-1]}, not {self.reason}"
        return None


class Group:
    """The cases of one file, in its order."""

    def __init__(self):
        self.cases = []

    def case(self, section, name, outcome, reason=None, *, rfc=None, why=None):
        """Decorates what the client does: it is given the [`World`] and returns the outcome or raises [`Ended`]."""

        def take(act):
            self.cases.append(Case(section, name, outcome, reason, rfc, why, act))
            return act

        return take


class World:
    """The programs under test and the clients of the case."""

    def __init__(self, ringwall, other, hasty):
        self.ringwall = ringwall
        # The same once more, and one that gives two seconds for a handshake.
        self.other, self.hasty = other, hasty
        self.peers = []

    def enter(self, kind, listener, instance=None, **options):
        ringwall = instance or self.ringwall
        peer = kind(ringwall.ports[listener], **options)
        peer.session = ringwall.enter(listener, peer.wire.port)
        self.peers.append(peer)
        return peer

    def leave(self):
        """Closes all connections; what the log says of them."""
        peers, self.peers = self.peers, []
        for peer in peers:
            peer.close()
        return [peer.session() for peer in peers]

    def peer(self, listener="public"):
        """A connection with nothing said yet."""
        return self.enter(Peer, listener)

    def tls13(self, listener="public", **options):
        return self.enter(Tls13, listener, **options)

    def tls12(self, listener="public", **options):
        return self.enter(Tls12, listener, **options)

    def answer(self, changed):
        """What the server says to this hello of the last client: `accepted` when it then waits for more, `retry` when
        it wants another hello."""
        peer = self.peers[-1]
        peer.send_hello(changed)
        return "retry" if peer.hear_answer() is None else "accepted"
