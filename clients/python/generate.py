"""Make the modules without asyncio from those for asyncio; with ``--check``, only compare them.

``sync_client.py`` is made from ``async_client.py``, ``evaluations.py`` from ``async_evaluations.py``, and
``knowledge.py`` from ``async_knowledge.py``.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent / "carrel_client"
MODULES = {
    "async_client.py": "sync_client.py",
    "async_evaluations.py": "evaluations.py",
    "async_knowledge.py": "knowledge.py",
}
WORDS = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (
        r"\bAsync(Client|Knowledge|KnowledgeBases|Documents|ApiKeys|Tenants|Agents|GoldenSets|Evaluations|Iterator|BaseTransport)\b",
        r"\1",
    ),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"\baclose\b", "close"),
    (r"\baread\b", "read"),
    (r"\baiter_bytes\b", "iter_bytes"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"^import asyncio\n", ""),
    (r"\bcarrel_client\.async_client\b", "carrel_client.sync_client"),
    (r"\bcarrel_client\.async_evaluations\b", "carrel_client.evaluations"),
    (r"``async with``", "``with``"),
    (r"by several tasks at the same time", "by several threads at the same time"),
    (
        r'^"""The client for asyncio\..*?"""',
        '"""The client. ``generate.py`` makes this file from ``async_client.py``: edit that file."""',
    ),
    (
        r'^"""Golden sets and evaluations, for asyncio\..*?"""',
        '"""Golden sets and evaluations. ``generate.py`` makes this file from ``async_evaluations.py``; edit that."""',
    ),
    (
        r'^"""Knowledge of an agent, for asyncio\..*?"""',
        '"""Knowledge of an agent. ``generate.py`` makes this file from ``async_knowledge.py``: edit that file."""',
    ),
]


def sync(source: str) -> str:
    """Return the source of the client without asyncio."""
    for pattern, put in WORDS:
        source = re.sub(pattern, put, source, flags=re.MULTILINE | re.DOTALL)
    for arguments in (["check", "--quiet", "--fix-only", "--select", "I"], ["format"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(HERE / "sync_client.py"), "-"]
        source = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    return source


if __name__ == "__main__":
    made = {HERE / target: sync((HERE / source).read_text()) for source, target in MODULES.items()}
    if "--check" in sys.argv[1:]:
        sys.exit(any(target.read_text() != text for target, text in made.items()))
    for target, text in made.items():
        target.write_text(text)
