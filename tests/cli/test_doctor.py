"""``carrel doctor``: a healthy installation, and each fault."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.embedded_postgres import EmbeddedPostgres
from harness.databases import DatabaseFactory, run_sql
from harness.protocol_servers.chat import ChatServer
from harness.protocol_servers.embedding import EmbeddingServer
from harness.protocol_servers.rerank import RerankServer
from tests.cli.conftest import embedding_settings
from tests.fixtures.s3 import S3Server
from tests.inference.rerank.cross_encoders import write_tiny

OPEN = "alter table document no force row level security"
BROKEN = "update pg_index set indisvalid = false where indexrelid = 'document_pkey'::regclass"

BEAT = "insert into worker_heartbeat (tenant_id, name) values (system_tenant(), 'alive')"
LOST = (
    "insert into worker_heartbeat (tenant_id, name, heartbeat_at)"
    " select system_tenant(), 'lost ' || n, now() - interval '3 min' from generate_series(1, 4) n"
)
WAITING = (
    "insert into job (tenant_id, id, kind, run_at) values (system_tenant(), gen_random_uuid(), 'delete_tenant',"
    " now() - interval '{minutes} min')"
)


def look(settings: dict[str, str], place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, list[str]]]:
    """Return the exit status, and state and detail of each check."""
    monkeypatch.chdir(place)
    done = CliRunner().invoke(app, ["doctor", "--json"], env={"CARREL_DATA_DIR": str(place), **settings})
    found: dict[str, list[str]] = {}
    for one in json.loads(done.stdout):
        found.setdefault(one["check"], []).append(f"{one['state']}: {one['detail']}")
    return done.exit_code, found


def test_doctor_healthy_installation_is_ok(
    make_database: DatabaseFactory, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = make_database()
    run_sql(urls.owner, BEAT)
    with EmbeddingServer() as embedding, ChatServer() as chat, RerankServer() as rerank:
        settings = {
            **embedding_settings(embedding),
            "CARREL_DATABASE_URL": urls.app, "CARREL_ADMIN_DATABASE_URL": urls.owner,
            "CARREL_S3_BUCKET": s3_server.bucket, "CARREL_S3_ENDPOINT_URL": s3_server.endpoint_url,
            "CARREL_S3_ACCESS_KEY_ID": s3_server.access_key_id,
            "CARREL_S3_SECRET_ACCESS_KEY": s3_server.secret_access_key,
            "CARREL_CHAT_BASE_URL": chat.base_url, "CARREL_CHAT_MODEL": "talker",
            "CARREL_RERANK_URL": rerank.url,
        }  # fmt: skip
        status, found = look(settings, tmp_path, monkeypatch)
    assert status == 0, found
    assert set(found) == {
        "disk", "parser confinement", "old Office files", "database", "schema and role", "tenant isolation", "indexes",
        "clock", "owner", "workers", "waiting jobs", "object store", "object store rights", "embedding", "chat",
        "rerank",
    }  # fmt: skip
    assert found.pop("old Office files")[0].partition(":")[0] in ("ok", "skipped")  # LibreOffice may be missing
    assert {one.partition(":")[0] for check, ones in found.items() for one in ones if check != "disk"} == {"ok"}
    assert "words, 64 dimensions" in found["embedding"][0]
    assert s3_server.client.list_objects_v2(Bucket=s3_server.bucket, Prefix="carrel-doctor/")["KeyCount"] == 0


@pytest.mark.capability("cli-doctor")
def test_doctor_names_each_fault(
    make_database: DatabaseFactory, postgres_server: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = make_database()
    run_sql(urls.owner, OPEN)
    run_sql(postgres_server.build_url(urlsplit(urls.owner).path.removeprefix("/")), BROKEN)
    with EmbeddingServer() as embedding, ChatServer() as chat:
        embedding.dimensions = 32
        chat.fail(500, times=10)
        settings = {
            **embedding_settings(embedding),
            "CARREL_DATABASE_URL": urls.app,
            "CARREL_CHAT_BASE_URL": chat.base_url, "CARREL_CHAT_MODEL": "talker",
            "CARREL_S3_BUCKET": "none", "CARREL_S3_ENDPOINT_URL": "http://127.0.0.1:9",
            "CARREL_S3_ACCESS_KEY_ID": "a", "CARREL_S3_SECRET_ACCESS_KEY": "hidden-secret",
        }  # fmt: skip
        status, found = look(settings, tmp_path, monkeypatch)
    assert status == 1
    assert found["tenant isolation"] == [
        "failed: row-level security is not forced on document: stop the service, then force it"
    ]
    assert found["indexes"][0].startswith("warning: not valid: document_pkey")
    assert found["owner"][0].startswith("warning: CARREL_ADMIN_DATABASE_URL")
    assert {check for check, ones in found.items() if ones[-1].startswith("failed")} == {
        "tenant isolation", "object store", "embedding", "chat"
    }  # fmt: skip
    assert found["rerank"] == ["skipped: CARREL_RERANK_URL, CARREL_RERANK_LOCAL and CARREL_RERANK_PROVIDER are not set"]
    assert "hidden-secret" not in str(found)


def test_doctor_without_services_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddingServer() as embedding:
        status, found = look(embedding_settings(embedding), tmp_path, monkeypatch)
    assert status == 1
    assert "failed" in found["database"][0]
    assert found["object store"] == ["ok: files can be reached"]


def test_doctor_without_a_worker_warns_and_fails_when_a_job_waits(
    make_database: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = make_database()
    with EmbeddingServer() as embedding:
        settings = {**embedding_settings(embedding), "CARREL_DATABASE_URL": urls.app}
        status, found = look(settings, tmp_path, monkeypatch)
        assert (status, found["waiting jobs"]) == (0, ["ok: no job waits for a worker"])
        assert found["workers"][0].startswith("warning: none has sent a heartbeat within a minute")
        run_sql(urls.owner, WAITING.format(minutes=2))
        status, found = look(settings, tmp_path, monkeypatch)
    assert (status, found["waiting jobs"]) == (1, ["ok: 1 wait for a worker, the oldest for 2.0 minutes"])
    assert found["workers"][0].startswith("failed: ")


def test_doctor_reports_parser_confinement_of_workers(
    make_database: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = make_database()
    run_sql(
        urls.owner, BEAT, "update worker_heartbeat set confinement = 'partial', confinement_detail = 'missing filter'"
    )
    with EmbeddingServer() as embedding:
        settings = {**embedding_settings(embedding), "CARREL_DATABASE_URL": urls.app}
        status, found = look(settings, tmp_path, monkeypatch)
    assert (status, found["parser confinement of workers"]) == (0, ["warning: partial: missing filter"])


def test_doctor_warns_of_lost_workers_and_of_a_job_that_waits_for_long(
    make_database: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = make_database()
    run_sql(urls.owner, BEAT, LOST, WAITING.format(minutes=30))
    with EmbeddingServer() as embedding:
        settings = {**embedding_settings(embedding), "CARREL_DATABASE_URL": urls.app}
        status, found = look(settings, tmp_path, monkeypatch)
    assert status == 0
    assert found["workers"] == ["ok: 1 with a heartbeat within a minute"]
    assert found["lost workers"][0].startswith("warning: 4 workers ended unexpectedly")
    assert found["waiting jobs"] == [
        "warning: 1 wait for a worker, the oldest for 30.0 minutes, which is more than 10: start another worker"
    ]


def test_doctor_checks_local_reranker(
    make_database: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = make_database()
    model = write_tiny(tmp_path / "tiny")
    with EmbeddingServer() as embedding:
        settings = {
            **embedding_settings(embedding),
            "CARREL_DATABASE_URL": urls.app,
            "CARREL_RERANK_LOCAL": str(model),
        }
        _, found = look(settings, tmp_path, monkeypatch)
        assert found["rerank"][0].startswith("ok: tiny@")
        (model / "model.onnx").write_bytes(b"damaged")
        status, found = look(settings, tmp_path, monkeypatch)
    assert status == 1
    assert found["rerank"][0].startswith(f"failed: CARREL_RERANK_LOCAL: {model}/model.onnx is not an ONNX model")


LOCKS = "lock_shared(bigint)", "lock(bigint)", "unlock_all()", "xact_lock(bigint)"


def test_doctor_names_what_logins_of_sql_views_may_call_if_the_service_has_them(
    make_database: DatabaseFactory, postgres_server: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = make_database()
    superuser = postgres_server.build_url(urlsplit(urls.owner).path.removeprefix("/"))
    with EmbeddingServer() as embedding:
        settings = {**embedding_settings(embedding), "CARREL_DATABASE_URL": urls.app}
        assert "logins of SQL views" not in look(settings, tmp_path, monkeypatch)[1]
        settings["CARREL_SQL_VIEWS"] = "true"
        _, found = look(settings, tmp_path, monkeypatch)
        assert found["logins of SQL views"] == ["ok: they cannot create large objects or take advisory locks"]
        details = []
        for name in LOCKS:
            run_sql(superuser, f"grant execute on function pg_advisory_{name} to public")
            status, found = look(settings, tmp_path, monkeypatch)
            assert status == 0
            details += found["logins of SQL views"]
    assert details[0] == (
        "warning: every role may call pg_advisory_lock_shared; a superuser must run the statements in "
        "docs/how-to/read-with-sql.md"
    )
    assert "call pg_advisory_lock, pg_advisory_lock_shared, pg_advisory_unlock_all; a superuser" in details[2]
    assert (
        "call pg_advisory_lock, pg_advisory_lock_shared, pg_advisory_unlock_all and 1 more; a superuser" in details[3]
    )
