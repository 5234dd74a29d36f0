"""Program that runs hostile attempts in a real pool, and prints their outcomes as JSON.

``python -m tests.sandbox.attempts SURROUNDINGS DIRECTORY ATTEMPT…``; in an attempt ``DIR`` is the directory with the
service's secrets, ``PORT`` a listening port.
"""

import asyncio
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from app.ingestion.parsers import ParserSpec
from app.ingestion.parsers.sandbox.pool import ParserPool
from app.ingestion.types import ParserCrashed, ParserTimeout
from app.sandbox.kernel import protect_memory
from tests.ingestion.parsers.conftest import LIMITS
from tests.sandbox.surroundings import PLAIN_UID, become_plain_user, refuse_confinement

HOSTILE = ParserSpec("test/hostile", ("hostile",), "tests.sandbox.hostile", is_plugin=True)
SECRET = "SECRET"


def main(surroundings: str, directory: Path, attempts: list[str]) -> None:
    for name in ("credentials.json", "original"):
        path = directory / name
        path.write_text(SECRET)
        path.chmod(0o600)
        if "plain" in surroundings:
            os.chown(path, PLAIN_UID, PLAIN_UID)
    if "plain" in surroundings:
        os.chown(directory, PLAIN_UID, PLAIN_UID)
        become_plain_user()
    if "unfiltered" in surroundings:
        refuse_confinement(filters=True, landlock=True)
    if "unlocked" in surroundings:
        refuse_confinement(filters=False, landlock=True)
    protect_memory()
    os.environ["CARREL_OPERATOR_KEY"] = SECRET
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0carrel-test-{os.getpid()}")
        abstract.listen()
        words = {"DIR": str(directory), "PORT": str(server.getsockname()[1]), "NAME": f"carrel-test-{os.getpid()}"}
        print(json.dumps(asyncio.run(_run(attempts, directory, words))))


async def _run(attempts: list[str], directory: Path, words: dict[str, str]) -> dict[str, Any]:
    pool = ParserPool(**LIMITS, parsers={HOSTILE.media_type: HOSTILE})
    outcomes: dict[str, Any] = {}
    path = directory / "attempt"
    for attempt in attempts:
        text = attempt
        for word, value in words.items():
            text = text.replace(word, value)
        path.write_text(text)
        path.chmod(0o600)
        try:
            document = await pool.parse(path, HOSTILE.media_type)
            outcomes[attempt] = document.blocks[0].text
        except (ParserCrashed, ParserTimeout) as exc:
            outcomes[attempt] = type(exc).__name__
        if attempt == "fork":
            outcomes["left behind"] = await _left_behind(pool, outcomes["fork"])
    await pool.close()
    left = {path.name: path.read_text() for path in directory.iterdir() if path.is_file()}
    del left["attempt"]
    return {"outcomes": outcomes, "confinement": pool.confinement and pool.confinement.missing, "files": left}


async def _left_behind(pool: ParserPool, outcome: str) -> bool:
    """Return whether a process that an attempt started runs after the pool has ended its child."""
    await pool.close()
    if not outcome.startswith("done"):
        return False
    started = Path(f"/proc/{outcome.split()[1]}/stat")
    end = time.monotonic() + 5
    while started.exists() and time.monotonic() < end:
        await asyncio.sleep(0.05)
    return started.exists()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
