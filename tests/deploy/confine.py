#!/usr/bin/python3
"""Becomes a program under the seccomp filters of a systemd unit or of a container profile.

    confine.py ringwall.service PROGRAM [ARGUMENT...]
    confine.py seccomp.json PROGRAM [ARGUMENT...]

Of a unit: SystemCallFilter=, SystemCallErrorNumber=, RestrictAddressFamilies=, MemoryDenyWriteExecute= and
RestrictRealtime=, as systemd makes filters of them, which is not needed for it but its `systemd-analyze` is. Needs Debian's
python3-seccomp."""

import errno
import json
import os
import socket
import subprocess
import sys

import seccomp
from seccomp import ALLOW, Arg, EQ, ERRNO, MASKED_EQ

PROT_WRITE, PROT_EXEC = 0x2, 0x4
SCHED_OTHER, SCHED_BATCH, SCHED_IDLE = 0, 3, 5


def known(names):
    """Those that libseccomp knows on this machine; others cannot be called."""
    return [name for name in names if seccomp.resolve_syscall(seccomp.Arch(), name) != -1]


def members(group):
    """The system calls of a group of systemd, those of the groups in it among them."""
    listed = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", group], check=True, capture_output=True, text=True)
    found = set()
    for line in listed.stdout.splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            found |= members(word)
        elif word and not word.startswith("#"):
            found.add(word)
    return found


def settings(path):
    """The values of each key of [Service], in order."""
    found, section = {}, ""
    for line in map(str.strip, open(path, encoding="utf-8")):
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


def denials(unit):
    """What is forbidden by arguments; everything else is left to the other filter."""
    rules = seccomp.SyscallFilter(ALLOW)
    if unit.get("MemoryDenyWriteExecute") == ["yes"]:
        both = PROT_WRITE | PROT_EXEC
        rules.add_rule(ERRNO(errno.EPERM), "mmap", Arg(2, MASKED_EQ, both, both))
        rules.add_rule(ERRNO(errno.EPERM), "mprotect", Arg(2, MASKED_EQ, PROT_EXEC, PROT_EXEC))
        rules.add_rule(ERRNO(errno.EPERM), "pkey_mprotect", Arg(2, MASKED_EQ, PROT_EXEC, PROT_EXEC))
    if unit.get("RestrictRealtime") == ["yes"]:
        for policy in set(range(8)) - {SCHED_OTHER, SCHED_BATCH, SCHED_IDLE}:
            rules.add_rule(ERRNO(errno.EPERM), "sched_setscheduler", Arg(1, EQ, policy))
    return rules


def families(unit):
    rules = seccomp.SyscallFilter(ALLOW)
    allowed = {getattr(socket, name) for value in unit["RestrictAddressFamilies"] for name in value.split()}
    for family in set(range(64)) - allowed:
        rules.add_rule(ERRNO(errno.EAFNOSUPPORT), "socket", Arg(0, EQ, int(family)))
    return rules


def filters_of_unit(path):
    unit = settings(path)
    allowed = set()
    for value in unit["SystemCallFilter"]:
        takes_away = value.startswith("~")
        named = set()
        for word in value.lstrip("~").split():
            named |= members(word) if word.startswith("@") else {word}
        allowed = allowed - named if takes_away else allowed | named
    # systemd's own last steps before it becomes the program.
    allowed |= members("@default") | {"execve"}
    calls = seccomp.SyscallFilter(ERRNO(getattr(errno, unit["SystemCallErrorNumber"][0])))
    for name in known(sorted(allowed)):
        calls.add_rule(ALLOW, name)
    return [families(unit), denials(unit), calls]


def argument(condition):
    if condition["op"] == "SCMP_CMP_EQ":
        return Arg(condition["index"], EQ, condition["value"])
    assert condition["op"] == "SCMP_CMP_MASKED_EQ", condition
    return Arg(condition["index"], MASKED_EQ, condition["value"], condition["valueTwo"])


def filters_of_profile(path):
    profile = json.load(open(path, encoding="utf-8"))
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    rules = seccomp.SyscallFilter(ERRNO(profile["defaultErrnoRet"]))
    for entry in profile["syscalls"]:
        action = {"SCMP_ACT_ALLOW": lambda: ALLOW, "SCMP_ACT_ERRNO": lambda: ERRNO(entry["errnoRet"])}[entry["action"]]()
        for name in known(entry["names"]):
            rules.add_rule(action, name, *map(argument, entry.get("args", [])))
    return [rules]


def main():
    rules, program = sys.argv[1], sys.argv[2:]
    filters = filters_of_profile(rules) if rules.endswith(".json") else filters_of_unit(rules)
    # Without no_new_privs only root may load a filter; with it, the last one may forbid loading.
    for each in filters:
        each.load()
    os.execvp(program[0], program)


main()
