"""A sandboxed program that does nothing. The service starts it to find out which measures this machine supports."""

from app.sandbox.channel import Channel
from app.sandbox.confinement import SandboxLimits

_MEMORY_MB = 512


def main() -> None:
    """Confine this process, and end when the input ends."""
    channel = Channel()
    channel.confine(SandboxLimits(memory_mb=_MEMORY_MB))
    for _ in channel.iter_requests():
        pass


if __name__ == "__main__":
    main()
