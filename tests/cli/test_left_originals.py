"""Originals that a killed worker leaves in the temporary directory, and the receipt of a deletion meanwhile."""

import os
import signal
from pathlib import Path
from typing import Any

import httpx

from tests.cli.commands import Command, serving, started, wait_until
from tests.cli.conftest import embedding_settings
from tests.protocol_servers.embedding import EmbeddingServer

DOCUMENTS = "/v1/knowledge-bases/default/documents"
# Parsing takes some seconds.
LONG_TEXT = "\n\n".join(f"# Part {number}\n\n" + "A tern flies over the harbour. " * 40 for number in range(4000))


def originals(directory: Path) -> list[Path]:
    """Return the originals that workers have put into the temporary directory."""
    return list(directory.glob("carrel-ingest-*/original"))


def kill_while_it_parses(worker: Command, directory: Path) -> Path:
    """Kill the worker as soon as it has fetched an original; return the path of the original."""
    wait_until(lambda: any(path.stat().st_size for path in originals(directory)))
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait(60)
    [left] = originals(directory)
    return left


def test_receipt_is_unfinished_until_the_original_of_a_killed_worker_is_removed(
    place: Path, endpoint: EmbeddingServer
) -> None:
    temporary = place / "temporary"
    temporary.mkdir()
    settings = {**embedding_settings(endpoint), "TMPDIR": str(temporary)}
    with serving(place, "--api-only", **settings) as service, service.client() as client:
        with started(place, "worker", **settings) as worker:
            worker.wait_for("worker.started")
            made = client.post(DOCUMENTS, files={"file": ("long.md", LONG_TEXT.encode())}).raise_for_status().json()
            left = kill_while_it_parses(worker, temporary)
        reply = client.delete(f"{DOCUMENTS}/{made['id']}").raise_for_status()
        receipt = f"/v1/deletions/{reply.headers['Carrel-Deletion-Id']}"
        assert read(client, receipt)["finished_at"] is None
        assert left.exists()

        with started(place, "worker", **settings) as next_worker:

            def is_finished() -> bool:
                """The receipt is read first: if it is finished, the original was removed before."""
                finished = read(client, receipt)["finished_at"] is not None
                assert not (finished and left.exists())
                return finished

            wait_until(is_finished)
            assert set(read(client, receipt)["remaining"].values()) == {0}
            assert originals(temporary) == []
            assert next_worker.end() == 0
        assert service.end() == 0


def read(client: httpx.Client, path: str) -> Any:
    return client.get(path).raise_for_status().json()
