"""A sandboxed program for tests: it prints the lengths of its inputs, or its setup."""

import os
from pathlib import Path

from app.sandbox.channel import Channel
from app.sandbox.confinement import SandboxLimits


def main() -> None:
    channel = Channel()
    readable = tuple(Path(path) for path in channel.setup.get("readable", ()))
    confined = channel.confine(SandboxLimits(memory_mb=channel.setup["memory_mb"], readable_paths=readable))
    for request, descriptors in channel.iter_requests():
        match request["do"]:
            case "read":
                channel.send({"lengths": [len(os.read(descriptor, 1 << 20)) for descriptor in descriptors]})
            case "open":
                channel.send({"text": Path(f"/proc/self/fd/{descriptors[0]}").read_text()})
            case "read path":
                channel.send({"text": _text(confined.resolve_path(request["path"]))})
            case "descriptors":
                channel.send({"open": [number for number in range(64) if _is_open(number)]})
            case "say":
                channel.send({"said": "x" * request["characters"]})


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except PermissionError:
        return None


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
