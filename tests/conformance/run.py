"""Runs the conformance tests: ringwall in front of a real server, and clients that keep to the standards or do not.

    run.py PROGRAM [GROUP ...]     PROGRAM is ringwall; without groups, all of them

Each case is a line: where the standard says it, what the client does, what comes of it. Exits with 1 when one is not as
expected, and stops at nothing else.
"""

import importlib
import sys
import tempfile
import time

import scans
from case import World
from process import Certificate, Redis, Ringwall

GROUPS = (
    "conversations",
    "hellos",
    "records",
    "padding",
    "messages",
    "fragments",
    "retries",
    "resumption",
    "early_data",
    "key_updates",
    "change_cipher_spec",
    "renegotiation",
    "endings",
    "cuts",
)


def judge(name, world):
    """Runs a group; how many cases failed."""
    cases = importlib.import_module(name).group.cases
    started = time.monotonic()
    failed = deviating = 0
    for case in cases:
        wrong = case.judge(world)
        failed += wrong is not None
        deviating += case.rfc is not None
        said = f"-> {case.outcome}" if wrong is None else f"FAILED: {wrong}"
        print(f"  {case.section}: {case.name} {said}")
        if case.rfc is not None:
            print(f"    deviates from {case.rfc}: {case.why}")
    print(
        f"{name}: {len(cases)} cases, {failed} failed, {deviating} deviate ({time.monotonic() - started:.1f} s)",
        flush=True,
    )
    return failed


def tables(folder):
    """The `tls` tables of the listeners."""
    p256 = Certificate(folder, "p256", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    p384 = Certificate(folder, "p384", "ec", "-pkeyopt", "ec_paramgen_curve:P-384")
    rsa = Certificate(folder, "rsa", "rsa:2048")
    ed25519 = Certificate(folder, "ed25519", "ed25519")
    more = f'certificates = [{{ certificate = "{rsa.certificate}", private_key = "{rsa.private_key}" }}]'
    groups = "X25519MLKEM768 SecP256r1MLKEM768 x25519 secp256r1 secp384r1".split()
    return {
        "public": p256.keys(),
        "both": f"{p256.keys()}\n{more}",
        "p384": p384.keys(),
        "rsa": rsa.keys(),
        "ed25519": ed25519.keys(),
        "tls13": f'{p256.keys()}\nmin_version = "1.3"',
        "asks": f'{p256.keys()}\nclient_auth = "optional"\nclient_ca = "{p256.certificate}"',
        "groups": f"{p256.keys()}\ngroups = {groups}",
    }


def main(program, *names):
    with tempfile.TemporaryDirectory() as folder:
        redis = Redis(folder)
        listeners = tables(folder)
        timeouts = {"ringwall": "30s", "other": "30s", "hasty": "2s"}
        instances = [Ringwall(program, folder, name, redis, listeners, timeout) for name, timeout in timeouts.items()]
        try:
            # A scan waits more than it works.
            under_way = [] if names else scans.start(instances[0])
            failed = sum(judge(name, World(*instances)) for name in names or GROUPS)
            failed += scans.judge(under_way)
        finally:
            for process in (*instances, redis):
                process.stop()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
