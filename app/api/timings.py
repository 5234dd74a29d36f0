"""What a search took, as a header of its reply or of its error."""

from collections.abc import Mapping
from types import MappingProxyType


def server_timing(timings_ms: Mapping[str, float], dropped: Mapping[str, str] = MappingProxyType({})) -> str:
    """The header of that name (W3C Server Timing); the total comes first, what was dropped last."""
    steps = sorted(timings_ms.items(), key=lambda step: step[0] != "total")
    told = [f"{name};dur={spent}" for name, spent in steps]
    return ", ".join(told + [f'dropped;desc="{step}: {reason}"' for step, reason in dropped.items()])
