"""Observation of a process tree: the network addresses it connects to, and the files it leaves in directories."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from tests.cli.commands import descendants

LOOK_SECONDS = 0.02
LISTENING = "0A"
TRACED = re.compile(r'(?:inet_addr\("|inet_pton\(AF_INET6, ")([^"]+)"')
TRACED_PORT = re.compile(r"sin6?_port=htons\((\d+)\)")


@dataclass
class Observed:
    """Connections as ``(protocol, local port, host, port)``, ports on which the tree listens, names in directories."""

    connections: set[tuple[str, int, str, int]] = field(default_factory=set)
    listening: set[int] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    processes: set[int] = field(default_factory=set)

    @property
    def remotes(self) -> set[tuple[str, str, int]]:
        """Addresses that the tree has connected to, without incoming connections."""
        return {
            (protocol, host, port)
            for protocol, local, host, port in self.connections
            if protocol != "tcp" or local not in self.listening
        }

    def strangers(self) -> set[tuple[str, str, int]]:
        """Return the addresses that no process of the tree listens on, on this machine."""
        return {
            (protocol, host, port)
            for protocol, host, port in self.remotes
            if protocol != "tcp" or not ip_address(host).is_loopback or port not in self.listening
        }


@contextmanager
def observed(pid: int, *directories: Path) -> Iterator[Observed]:
    """Observe a process and all processes below it, until the block ends."""
    found, end = Observed(), threading.Event()

    def look() -> None:
        while not end.wait(LOOK_SECONDS):
            tree = {pid} | descendants(pid)
            found.processes |= tree
            _look_at_sockets(tree, found)
            for directory in directories:
                found.files |= {str(path) for path in _below(directory)}

    thread = threading.Thread(target=look, name="observer")
    thread.start()
    try:
        yield found
    finally:
        end.set()
        thread.join()


def traced(log: Path) -> set[tuple[str, int]]:
    """Return the hosts and ports in strace's lines of connect, sendto and sendmsg."""
    found = set()
    for line in log.read_text(errors="replace").splitlines():
        host, port = TRACED.search(line), TRACED_PORT.search(line)
        if host and port:
            found.add((host[1], int(port[1])))
    return found


def _below(directory: Path) -> list[Path]:
    try:
        return list(directory.rglob("*"))
    except OSError:  # removed at this moment
        return []


def _look_at_sockets(tree: set[int], found: Observed) -> None:
    inodes = {inode for pid in tree for inode in _sockets(pid)}
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{protocol}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] not in inodes:
                continue
            (_, local_port), (host, port) = _address(fields[1]), _address(fields[2])
            if protocol.startswith("tcp") and fields[3] == LISTENING:
                found.listening.add(local_port)
            elif port:
                found.connections.add((protocol.rstrip("6"), local_port, host, port))


def _sockets(pid: int) -> Iterator[str]:
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = entry.readlink().name
            except OSError:
                continue
            if target.startswith("socket:["):
                yield target[len("socket:[") : -1]
    except OSError:  # ended at this moment
        return


def _address(text: str) -> tuple[str, int]:
    """Return host and port from the kernel's hexadecimal words, each in this machine's byte order."""
    host, _, port = text.partition(":")
    words = [bytes.fromhex(host[place : place + 8])[::-1] for place in range(0, len(host), 8)]
    address = ip_address(b"".join(words))
    return str(getattr(address, "ipv4_mapped", None) or address), int(port, 16)
