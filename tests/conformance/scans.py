"""What sslscan, which asks in ways of its own, finds on three listeners."""

import shutil
import subprocess
import xml.etree.ElementTree

LISTENERS = ("public", "tls13", "both")

PROTOCOLS = {"ssl2": 0, "ssl3": 0, "tls1.0": 0, "tls1.1": 0, "tls1.2": 1, "tls1.3": 1}
SUITES_13 = [
    "preferred TLSv1.3 TLS_AES_128_GCM_SHA256",
    "accepted TLSv1.3 TLS_AES_256_GCM_SHA384",
    "accepted TLSv1.3 TLS_CHACHA20_POLY1305_SHA256",
]
SUITES_ECDSA = [
    "preferred TLSv1.2 ECDHE-ECDSA-CHACHA20-POLY1305",
    "accepted TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256",
    "accepted TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384",
]
SUITES_RSA = [
    "accepted TLSv1.2 ECDHE-RSA-CHACHA20-POLY1305",
    "accepted TLSv1.2 ECDHE-RSA-AES128-GCM-SHA256",
    "accepted TLSv1.2 ECDHE-RSA-AES256-GCM-SHA384",
]
EXPECTED = {
    "public": (PROTOCOLS, SUITES_13 + SUITES_ECDSA),
    "tls13": ({**PROTOCOLS, "tls1.2": 0}, SUITES_13),
    "both": (PROTOCOLS, SUITES_13 + SUITES_ECDSA + SUITES_RSA),
}
GROUPS = {"secp256r1 (NIST P-256)", "secp384r1 (NIST P-384)", "x25519"}
# sslscan lists it where its OpenSSL has it, from 3.5 on.
LATER_GROUPS = {"X25519MLKEM768"}


class Scan:
    """A scan of one listener, under way from the start."""

    def __init__(self, listener, port):
        self.listener = listener
        self.process = subprocess.Popen(
            [
                "sslscan",
                "--xml=-",
                "--no-colour",
                "--no-check-certificate",
                "--sni-name=localhost",
                f"127.0.0.1:{port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )

    def findings(self):
        """Pairs of what was found and what was expected, by name."""
        output, _ = self.process.communicate()
        found = xml.etree.ElementTree.fromstring(output.decode()).find("ssltest")
        protocols, suites = EXPECTED[self.listener]

        def flags(tag, flag):
            return {int(element.get(flag)) for element in found.findall(tag)}

        return {
            "protocols": (
                {
                    each.get("type") + each.get("version"): int(each.get("enabled"))
                    for each in found.findall("protocol")
                },
                protocols,
            ),
            "cipher suites": (
                [
                    f"{each.get('status')} {each.get('sslversion')} {each.get('cipher')}"
                    for each in found.findall("cipher")
                ],
                suites,
            ),
            "groups": ({each.get("name") for each in found.findall("group")} - LATER_GROUPS, GROUPS),
            "renegotiation": (flags("renegotiation", "supported"), {0}),
            "heartbleed": (flags("heartbleed", "vulnerable"), {0}),
            # An OpenSSL without zlib, as Debian's, cannot ask for it; a hello with it is among the cases of hellos.
            "compression": (flags("compression", "supported") - {0}, set()),
        }


def start(ringwall):
    """Starts the scans, or says why there are none."""
    if not shutil.which("sslscan"):
        print("sslscan is not installed: what it would find is not checked")
        return []
    return [Scan(listener, ringwall.ports[listener]) for listener in LISTENERS]


def judge(scans):
    """Prints what the scans found; how much of it was not expected."""
    findings = wrong = 0
    for scan in scans:
        for name, (found, expected) in scan.findings().items():
            findings += 1
            wrong += found != expected
            print(
                f"  {scan.listener}: {name}: "
                + ("as expected" if found == expected else f"FAILED: {found}, not {expected}")
            )
    if scans:
        print(f"scans: {findings} findings, {wrong} failed")
    return wrong
