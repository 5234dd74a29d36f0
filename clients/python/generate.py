"""Make ``sync_client.py`` from ``async_client.py``; with ``--check``, only compare them (status 1 if they differ)."""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent / "carrel_client"
WORDS = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync(Client|KnowledgeBases|Documents|ApiKeys|Tenants|Agents|Iterator|BaseTransport)\b", r"\1"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"\baclose\b", "close"),
    (r"\baread\b", "read"),
    (r"\baiter_bytes\b", "iter_bytes"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"^import asyncio\n", ""),
    (r"``async with``", "``with``"),
    (r"by several tasks at the same time", "by several threads at the same time"),
    (
        r'^"""The client for asyncio\..*?"""',
        '"""The client. ``generate.py`` makes this file from ``async_client.py``: edit that file."""',
    ),
]


def sync(source: str) -> str:
    """Return the source of the client without asyncio."""
    for pattern, put in WORDS:
        source = re.sub(pattern, put, source, flags=re.MULTILINE | re.DOTALL)
    formatter = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "clients/sync_client.py", "-"]
    return subprocess.run(formatter, input=source, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    made = sync((HERE / "async_client.py").read_text())
    target = HERE / "sync_client.py"
    if "--check" in sys.argv[1:]:
        sys.exit(target.read_text() != made)
    target.write_text(made)
