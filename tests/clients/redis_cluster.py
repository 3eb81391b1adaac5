"""A cluster behind ringwall as redis-py sees it, while slots move, primaries change places, and one is killed.

Arguments: CA file of ringwall's certificate, folder of the nodes, and for each node from 1 on the port of ringwall's
listener and the node's own address, as in 7101=127.0.0.1:7001. Says at the end that all is well, and who took over.
"""

import os
import signal
import subprocess
import sys
import threading

import redis
from redis.cluster import ClusterNode, RedisCluster

ca_file, folder = sys.argv[1:3]
listeners = [int(pair.split("=")[0]) for pair in sys.argv[3:]]
addresses = [pair.split("=")[1] for pair in sys.argv[3:]]
numbers = range(1, len(addresses) + 1)
# What a client of a cluster has to live with while a primary is gone.
AWAY = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.ClusterDownError, redis.exceptions.SlotNotCoveredError)


def through_ringwall():
    """A client that trusts ringwall's authority and not the nodes', and has no certificate for them either."""
    start = [ClusterNode("localhost", listeners[0])]
    return RedisCluster(startup_nodes=start, ssl=True, ssl_ca_certs=ca_file, client_name="application")


def node(number):
    """A client that talks to a node directly."""
    return redis.Redis(unix_socket_path=f"{folder}/{number}/redis.sock", decode_responses=True)


def administer(*arguments):
    """redis-cli at the nodes' own ports."""
    files = ["--cacert", f"{folder}/nodes-ca.crt", "--cert", f"{folder}/node.crt", "--key", f"{folder}/node.key"]
    done = subprocess.run(["redis-cli", "--tls", *files, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def myself(number):
    """What the node says of itself: its id, its flags, and its primary's id."""
    lines = node(number).execute_command("CLUSTER NODES").items()
    return next((told["node_id"], told["flags"], told["master_id"]) for _, told in lines if "myself" in told["flags"])


class Application(threading.Thread):
    """Writes and reads on, each with a client of its own. While it is strict, each call succeeds and is true."""

    progress = threading.Condition()
    strict = True
    ended = False
    failed = None

    def __init__(self, number):
        super().__init__(daemon=True)
        self.number = number
        self.calls = 0
        self.client = through_ringwall()

    def run(self):
        try:
            while not Application.ended:
                self.call(self.calls)
                with self.progress:
                    self.calls += 1
                    self.progress.notify_all()
        except BaseException as error:
            with self.progress:
                Application.failed = error
                self.progress.notify_all()
            raise

    def call(self, counter):
        key, value = f"{self.number}:{counter % 3000}", str(counter).encode()
        strict = Application.strict
        try:
            self.client.set(key, value)
            read = self.client.get(key)
            assert read == value or not strict or not Application.strict, (key, value, read)
        except AWAY:
            if strict and Application.strict:
                raise


def go_on(calls):
    """Waits until each of the applications has called so many times more."""
    with Application.progress:
        goals = [(application, application.calls + calls) for application in applications]

        def reached():
            return Application.failed or all(application.calls >= goal for application, goal in goals)

        assert Application.progress.wait_for(reached, timeout=120), "an application hangs"
    assert Application.failed is None, Application.failed


def wait_for_primary(number):
    for _ in range(2000):
        if "master" in myself(number)[1]:
            return
        go_on(1)
    raise AssertionError(f"node {number} is no primary:\n{node(number).execute_command('CLUSTER NODES')}")


def replica_of(number):
    primary = myself(number)[0]
    return next(other for other in numbers if myself(other)[2] == primary)


applications = [Application(number) for number in range(4)]
for application in applications:
    application.start()
go_on(500)

# Slots with keys move from one primary to another: ASK, and then MOVED.
first, second, third = (number for number in numbers if "master" in myself(number)[1])
source, target = myself(first)[0], myself(second)[0]
moved = ["--cluster-from", source, "--cluster-to", target, "--cluster-slots", "300", "--cluster-yes"]
administer("--cluster", "reshard", addresses[0], *moved)
go_on(500)

# A replica takes over in good order: nothing is lost, and nobody fails.
heirs = [replica_of(second)]
heir = heirs[0]
assert node(heir).execute_command("CLUSTER FAILOVER") in ("OK", True)
wait_for_primary(heir)
go_on(500)

# A primary is killed. What it had not told its replica is lost, and calls fail until that has taken over.
Application.strict = False
heir = replica_of(third)
heirs.append(heir)
os.kill(node(third).info("server")["process_id"], signal.SIGKILL)
wait_for_primary(heir)
# Each meets the new primary, a third of its keys being there, and gets rid of what it has of the old one.
go_on(500)
Application.strict = True
go_on(1000)

Application.ended = True
for application in applications:
    application.join()
assert Application.failed is None, Application.failed
# All that they know of the cluster are ringwall's listeners, the new primary's among them.
for application in applications:
    known = {(each.port, each.server_type) for each in application.client.get_nodes()}
    assert (listeners[heir - 1], "primary") in known, known
    assert {port for port, _ in known} <= set(listeners), known
# Where ringwall comes through the nodes' sockets, nobody came to a port.
alive = [number for number in numbers if number != third]
clients = [each for number in alive for each in node(number).client_list() if each["name"] == "application"]
same_host = addresses[0].startswith("127.0.0.1:")
assert clients and all(("/redis.sock:" in each["laddr"]) == same_host for each in clients), clients
print("all well, with the heirs", *heirs)
