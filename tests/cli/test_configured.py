"""Commands with settings: invalid ones, external databases and stores, and a failing embedding endpoint."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from app.cli import app
from app.embedded_postgres import DatabaseUrls
from carrel import __version__
from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from tests.cli.commands import Command, run, serving, started, wait_until
from tests.cli.conftest import embedding_settings
from tests.fixtures.s3 import S3Server

OPERATOR = "operator-key-of-the-tests-0123456789"
DOCUMENTS = "/v1/knowledge-bases/default/documents"


def database_settings(urls: DatabaseUrls) -> dict[str, str]:
    return {
        "CARREL_DATABASE_URL": urls.app,
        "CARREL_ADMIN_DATABASE_URL": urls.owner,
        "CARREL_OPERATOR_KEY": OPERATOR,
    }


def first_tenant(service: Command) -> httpx2.Client:
    with service.client(OPERATOR) as operator:
        made = operator.post("/v1/tenants", json={"name": "first"}).raise_for_status().json()
    return service.client(made["api_key"]["key"])


@pytest.mark.parametrize(
    ("command", "settings", "said"),
    [
        ("serve", {"CARREL_PORT": "eighty"}, "CARREL_PORT: input should be a valid integer"),
        ("worker", {"CARREL_PROT": "8000"}, "unknown setting CARREL_PROT; correct or remove it;"),
        ("serve", {"CARREL_S3_BUCKET": "x"}, "CARREL_S3_ACCESS_KEY_ID, CARREL_S3_SECRET_ACCESS_KEY must be set too"),
        (
            "serve",
            {"CARREL_ADMIN_DATABASE_URL": "postgresql://owner:hidden@db/carrel"},
            "CARREL_DATABASE_URL must be set if CARREL_ADMIN_DATABASE_URL is",
        ),
        (
            "migrate",
            {"CARREL_DATABASE_URL": "postgresql://app:hidden@db/carrel"},
            "CARREL_ADMIN_DATABASE_URL must be set",
        ),
        (
            "serve",
            {"CARREL_DATABASE_URL": "postgresql://app:hidden@127.0.0.1:9/carrel"},
            "The database does not answer",
        ),
        ("serve", {"CARREL_DATA_DIR": "/proc/carrel"}, "/proc/carrel"),
    ],
)
def test_invalid_setting_prints_one_line(place: Path, command: str, settings: dict[str, str], said: str) -> None:
    ended = run(place, command, **settings)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("carrel: ")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "hidden" not in ended.stderr


def test_separate_migrate_worker_and_serve_work_together(
    place: Path,
    new_place: Callable[[], Path],
    make_empty_database: DatabaseFactory,
    s3_server: S3Server,
    endpoint: EmbeddingServer,
) -> None:
    made = make_empty_database()
    settings = {
        **database_settings(DatabaseUrls(f"{made.owner}?sslmode=disable", f"{made.app}?sslmode=prefer")),
        **embedding_settings(endpoint),
        "CARREL_S3_BUCKET": s3_server.bucket,
        "CARREL_S3_ENDPOINT_URL": s3_server.endpoint_url,
        "CARREL_S3_ACCESS_KEY_ID": s3_server.access_key_id,
        "CARREL_S3_SECRET_ACCESS_KEY": s3_server.secret_access_key,
    }
    early = run(place, "serve", "--api-only", "--port", "0", **settings)
    assert (early.returncode, early.stderr.splitlines()[-1].endswith("run carrel migrate")) == (1, True)
    migrated = run(place, "migrate", **settings)
    assert migrated.returncode == 0, migrated.stderr
    with ExitStack() as running:
        service = running.enter_context(serving(place, "--api-only", **settings))
        worker = running.enter_context(started(new_place(), "worker", **settings))
        assert "Key" not in service.screen
        client = running.enter_context(first_tenant(service))
        body = b"Herons wait in the reeds.\n\nOtters dive for trout."
        made = (
            client.post(DOCUMENTS, params={"wait": 30}, files={"file": ("birds.txt", body)}).raise_for_status().json()
        )
        assert made["status"] == "ready", made["error"]
        found = client.post("/v1/search", json={"query": "reeds"}).json()
        assert (len(found["results"]), found["warnings"]) == (1, [])
        # Without a public URL of the store, the service streams the content.
        content = client.get(f"{DOCUMENTS}/{made['id']}/content")
        assert (content.status_code, content.content) == (200, body)

        def stored() -> int:
            listed = s3_server.client.list_objects_v2(
                Bucket=s3_server.bucket, Prefix=client.get("/v1/me").json()["tenant"]["id"]
            )
            prefixes = s3_server.client.list_objects_v2(Bucket=s3_server.bucket)
            return listed["KeyCount"] + sum("birds" in key["Key"] for key in prefixes.get("Contents", []))

        client.delete(f"{DOCUMENTS}/{made['id']}").raise_for_status()
        assert client.post("/v1/search", json={"query": "reeds"}).json()["results"] == []
        wait_until(lambda: stored() == 0)
        worker.wait_for("job.done", count=2)
        assert worker.end() == 0
        assert service.end() == 0
    assert sorted(path.name for path in (place / ".carrel").iterdir()) == []


@pytest.mark.parametrize(
    ("dimensions", "key", "said"), [(32, None, "dimension"), (64, "the-right-key", "CARREL_EMBEDDING_API_KEY")]
)
def test_mismatched_embedding_endpoint_stops_start(
    place: Path, database: DatabaseUrls, endpoint: EmbeddingServer, dimensions: int, key: str | None, said: str
) -> None:
    endpoint.api_key = key
    settings = {**database_settings(database), **embedding_settings(endpoint, dimensions=dimensions)}
    refused = run(place, "serve", "--api-only", "--port", "0", **settings)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("carrel: ")
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_unavailable_embedding_endpoint_is_a_warning(
    place: Path, database: DatabaseUrls, endpoint: EmbeddingServer
) -> None:
    endpoint.fail(503, times=None)
    settings = {**database_settings(database), **embedding_settings(endpoint)}
    with serving(place, "--api-only", **settings) as service:
        assert len(service.events("embedding.unavailable_at_start")) == 1
        with first_tenant(service) as client:
            answer = client.post("/v1/search", json={"query": "herons"}).raise_for_status().json()
            assert answer["results"] == []
            assert answer["warnings"][0]["code"] == "embedding_unavailable"
            endpoint.reset()
            assert client.post("/v1/search", json={"query": "herons"}).json()["warnings"] == []
        assert service.end() == 0


@pytest.mark.parametrize("command", ["", "serve", "worker", "migrate", "models", "models pull"])
def test_help_has_examples(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"])
    assert shown.exit_code == 0
    if command not in ("", "models"):
        assert "Example" in shown.output
        assert f"carrel {command}" in shown.output


def test_exit_status_of_usage_errors_is_2() -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).output == f"carrel {__version__}\n"
    assert runner.invoke(app, ["sevre"]).exit_code == 2
    assert runner.invoke(app, ["serve", "--port", "x"]).exit_code == 2
