"""Batch of files whose worker is killed: the next worker attaches each file once."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from harness.protocol_servers.embedding import EmbeddingServer
from tests.cli.commands import serving, wait_until, worker_of
from tests.cli.conftest import embedding_settings

FILES = 60
STORE = "/openai/v1/vector_stores/default"


def test_serve_with_killed_worker_attaches_every_file_of_batch(
    new_place: Callable[[], Path], endpoint: EmbeddingServer
) -> None:
    endpoint.latency_seconds = 0.0
    with serving(new_place(), **embedding_settings(endpoint)) as service:
        with service.client() as client:

            def keep(number: int) -> str:
                part = {"file": (f"{number}.txt", f"Text {number}.".encode())}
                reply = client.post("/openai/v1/files", files=part, data={"purpose": "assistants"})
                return str(reply.raise_for_status().json()["id"])

            def attached() -> list[str]:
                listed = client.get(f"{STORE}/files", params={"limit": 100}).raise_for_status().json()
                return [file["id"] for file in listed["data"]]

            files = [keep(number) for number in range(FILES)]
            batch = client.post(f"{STORE}/file_batches", json={"file_ids": files}).raise_for_status().json()
            assert batch["file_counts"]["in_progress"] == FILES
            wait_until(lambda: bool(attached()))
            os.kill(worker_of(service.process.pid), signal.SIGKILL)

            def done() -> bool:
                found = client.get(f"{STORE}/file_batches/{batch['id']}").raise_for_status().json()
                return (found["status"], found["file_counts"]["completed"]) == ("completed", FILES)

            wait_until(done)
            assert sorted(attached()) == sorted(files)
            assert [event["status"] for event in service.events("worker.died")] == [-signal.SIGKILL]
        assert service.end() == 0
