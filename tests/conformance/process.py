"""The programs under test: a real redis-server, and ringwall in front of it."""

import json
import os
import re
import subprocess
import threading
import time

# How long anything that must happen may take on a busy machine.
PATIENCE = 60


def until(condition, what):
    """Waits for `condition` and gives what it gave."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.005)
    return value


class Certificate:
    """A self-signed certificate for `localhost` with a key of its own, in `folder`."""

    def __init__(self, folder, name, *algorithm):
        self.certificate = f"{folder}/{name}.crt"
        self.private_key = f"{folder}/{name}.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-newkey", *algorithm]
            + ["-addext", "subjectAltName=DNS:localhost", "-keyout", self.private_key, "-out", self.certificate],
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        os.chmod(self.private_key, 0o600)

    def keys(self):
        """The keys of a listener's `tls` table that name it."""
        return f'certificate = "{self.certificate}"\nprivate_key = "{self.private_key}"'


class Redis:
    """A redis-server on a unix socket in `folder`."""

    def __init__(self, folder):
        self.socket = f"{folder}/redis.sock"
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        until(lambda: os.path.exists(self.socket), "redis-server")

    def stop(self):
        self.process.kill()
        self.process.wait()


class Ringwall:
    """A ringwall in front of `redis`, with one listener for each name in `listeners`, which gives its `tls` table."""

    def __init__(self, program, folder, name, redis, listeners, handshake_timeout):
        config = f"{folder}/{name}.toml"
        with open(config, "w") as file:
            for listener, tls in listeners.items():
                file.write(f'[[listener]]\nname = "{listener}"\nbind = "127.0.0.1:0"\nbackend = "redis"\n')
                file.write(f"[listener.tls]\n{tls}\n")
            file.write(f'[[backend]]\nname = "redis"\nservers = ["unix:{redis.socket}"]\n')
            # Each session's line is waited for: none is withheld.
            file.write('[log]\nformat = "json"\nfailures_per_second = 100000\n[runtime]\nshards = 2\n')
            file.write(f'[limits]\nmax_connections = 1000\nhandshake_timeout = "{handshake_timeout}"\n')
        environment = {
            name: value for name, value in os.environ.items() if name not in ("RINGWALL_LOG", "NOTIFY_SOCKET")
        }
        self.process = subprocess.Popen(
            [program, "run", "--config", config],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        # What the log says of closed sessions, by listener and the client's port.
        self.closed = {}
        self.lines = []
        for line in self.process.stderr:
            self.lines.append(line)
            if json.loads(line)["message"] == "started":
                break
        else:
            raise AssertionError("ringwall does not start: " + "".join(self.lines))
        on = dict(re.findall(r"(\S+) on 127\.0\.0\.1:(\d+)", json.loads(line)["listeners"]))
        self.ports = {listener: int(on[listener]) for listener in listeners}
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        for line in self.process.stderr:
            self.lines.append(line)
            entry = json.loads(line)
            if entry["message"] == "session closed":
                self.closed[entry["listener"], int(entry["client"].rsplit(":", 1)[1])] = entry

    def enter(self, listener, port):
        """Told of a new client; gives what waits for the log to say how its session ended, to be asked once."""
        self.closed.pop((listener, port), None)
        return lambda: until(lambda: self.closed.pop((listener, port), None), f"the end of the session of port {port}")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        self.process.kill()
        self.process.wait()
