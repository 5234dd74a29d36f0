"""Originals that a killed worker or API process leaves in the temporary directory, and receipts until their removal."""

import os
import signal
import socket
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harness.protocol_servers.embedding import EmbeddingServer
from tests.cli.commands import Command, serving, started, wait_until
from tests.cli.conftest import embedding_settings

DOCUMENTS = "/v1/knowledge-bases/default/documents"
# Parsing takes some seconds.
LONG_TEXT = "\n\n".join(f"# Part {number}\n\n" + "A tern flies over the harbour. " * 40 for number in range(4000))


def originals(directory: Path) -> list[Path]:
    """Return the originals that workers have stored in the temporary directory."""
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


def read(client: httpx2.Client, path: str) -> Any:
    return client.get(path).raise_for_status().json()


FORM = b'--b\r\nContent-Disposition: form-data; name="file"; filename="long.md"\r\n\r\n'
# More than the service holds in memory before it writes a file.
HALF = FORM + b"A tern flies over the harbour. " * 100_000


@pytest.fixture
def temporary(place: Path) -> Path:
    directory = place / "temporary"
    directory.mkdir()
    return directory


def send_half(command: Command) -> socket.socket:
    """Begin an upload and keep its connection open."""
    address = httpx2.URL(command.url)
    connection = socket.create_connection((address.host, address.port or 80))
    head = (
        f"POST {DOCUMENTS} HTTP/1.1\r\nHost: {address.host}\r\nAuthorization: Bearer {command.key}\r\n"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {2 * len(HALF)}\r\n\r\n"
    )
    connection.sendall(head.encode() + HALF)
    return connection


def uploads(directory: Path) -> list[Path]:
    return [path for path in directory.glob("carrel-upload-*/*") if path.stat().st_size]


def test_next_api_process_removes_the_upload_of_a_killed_one(
    place: Path, temporary: Path, endpoint: EmbeddingServer
) -> None:
    """No worker is involved: API and workers may run on different machines."""
    settings = {**embedding_settings(endpoint), "TMPDIR": str(temporary)}
    with serving(place, "--api-only", **settings) as service, send_half(service):
        wait_until(lambda: uploads(temporary))
        assert service.end(signal.SIGKILL) == -signal.SIGKILL
    assert len(uploads(temporary)) == 1
    with serving(place, "--api-only", **settings) as service, send_half(service):
        wait_until(lambda: service.events("sweep.temp_files"))
        wait_until(lambda: len(uploads(temporary)) == 1)  # the upload in progress remains
        assert service.end() == 0
    assert uploads(temporary) == []
