"""A sandboxed program that does nothing: it shows which measures this machine allows."""

from app.sandbox.channel import Channel
from app.sandbox.confinement import SandboxLimits

_MEMORY_MB = 512


def main() -> None:
    """Confine this process and end with the input."""
    channel = Channel()
    channel.confine(SandboxLimits(memory_mb=_MEMORY_MB))
    for _ in channel.iter_requests():
        pass


if __name__ == "__main__":
    main()
