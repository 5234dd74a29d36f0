"""Header ``Server-Timing`` of a search: the durations of its steps."""

from collections.abc import Mapping
from types import MappingProxyType


def format_server_timing(timings_ms: Mapping[str, float], degraded: Mapping[str, str] = MappingProxyType({})) -> str:
    """Format the header ``Server-Timing`` (W3C): the total comes first, degraded steps come last."""
    steps = sorted(timings_ms.items(), key=lambda step: step[0] != "total")
    entries = [f"{name};dur={duration_ms}" for name, duration_ms in steps]
    return ", ".join(entries + [f'degraded;desc="{step}: {reason}"' for step, reason in degraded.items()])
