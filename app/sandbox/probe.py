"""A sandboxed program that does nothing: it shows which measures this machine allows."""

from app.sandbox.channel import Channel
from app.sandbox.confinement import Limits

_MEMORY_MB = 512


def main() -> None:
    """Confine this process and end with the input."""
    channel = Channel()
    channel.confine(Limits(memory_mb=_MEMORY_MB))
    for _ in channel.requests():
        pass


if __name__ == "__main__":
    main()
