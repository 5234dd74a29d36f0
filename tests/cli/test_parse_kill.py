"""A worker process that is killed after it has parsed a file: the next worker reads the stored result."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.databases import DatabaseFactory
from harness.processes import ROOT, build_environment, wait_until_ingested
from harness.protocol_servers.embedding import EmbeddingServer, ReceivedEmbeddingRequest, reply_at_once
from harness.running_service import Service, build_settings, run_service
from harness.wait_until import HANG_TIMEOUT_SECONDS
from tests.ingestion import illustrated


@contextmanager
def run_worker(service: Service, embedding: EmbeddingServer, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a worker process until the block ends."""
    environment = build_environment() | {
        **embedding.settings,
        "CARREL_DATA_DIR": str(service.settings.server.data_dir),
        "CARREL_DATABASE_URL": service.urls.app,
        "CARREL_WORKER_LEASE_TIMEOUT_SECONDS": "2",
        "CARREL_PARSER_PROCESSES": "1",
    }
    command = [sys.executable, "-m", "app.cli", "worker"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def list_events(log: Path) -> list[str]:
    """Return the events about parses in a log."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line["event"] for line in lines if line["event"].startswith("document.parse")]


def test_killed_worker_is_followed_by_reuse(make_database: DatabaseFactory, tmp_path: Path) -> None:
    with EmbeddingServer() as embedding:
        settings = build_settings(tmp_path / "data", embedding=embedding.settings)
        with run_service(settings, make_database(), worker=False) as service:
            tenant = service.create_tenant("killed")
            tenant.admin.post("/v1/knowledge-bases", json={"name": "other"}).raise_for_status()
            file = illustrated.pdf(tmp_path / "two.pdf")
            path = "/v1/knowledge-bases/default/documents"
            reply = tenant.admin.post(path, files={"file": (file.name, file.read_bytes())})
            reply.raise_for_status()
            reached, released = threading.Event(), threading.Event()

            def hold_document(request: ReceivedEmbeddingRequest) -> None:
                if "harbours" in str(request.inputs):
                    reached.set()
                    released.wait(HANG_TIMEOUT_SECONDS)

            embedding.before_reply = hold_document
            with run_worker(service, embedding, tmp_path / "first.log") as worker:
                assert reached.wait(HANG_TIMEOUT_SECONDS)
                worker.kill()
            embedding.before_reply = reply_at_once
            released.set()
            assert list_events(tmp_path / "first.log") == ["document.parsed"]
            with run_worker(service, embedding, tmp_path / "second.log"):
                wait_until_ingested(tenant.admin, "default")
                second = tenant.upload(file, kb="other")
            document = tenant.admin.get(f"{path}/{reply.json()['id']}").json()
            assert (document["status"], second["status"]) == ("ready", "ready")
            assert second["chunk_count"] == document["chunk_count"]
            assert list_events(tmp_path / "second.log") == ["document.parse_reused"] * 2
