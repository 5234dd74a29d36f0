"""Client commands of a running service: output for people and programs, and exit status."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from harness.running_service import OPERATOR_KEY, Service, Tenant
from tests.cli.commands import COMMAND, WIDE, environment, printed


@pytest.fixture
def carrel(tenant: Tenant) -> Callable[..., Any]:
    """Runner of client commands with the key of the tenant's admin."""
    return partial(printed, url=tenant.service.url, key=tenant.key)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Directory with readable, hidden, duplicate and unreadable files."""
    files = {"a.md": "# Terns\n\nThe tern dives.", "in/b.txt": "The heron stands.", "in/twice.txt": "The heron stands."}
    files |= {".git/config": "hidden", "in/.c.txt": "hidden", "d.xyz": "unknown", "drafts/e.md": "A draft of ibises."}
    for name, text in files.items():
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(text)
    return tmp_path / "docs"


def outcomes(told: list[dict[str, str]]) -> dict[str, str]:
    return {one["external_id"]: one["outcome"] for one in told}


@pytest.mark.capability("cli-upload")
def test_upload_directory_again_uploads_only_changes(carrel: Callable[..., Any], tree: Path) -> None:
    command = ("upload", str(tree), "--exclude", "drafts/*", "--concurrency", "1", "--metadata", '{"a": 1}', "--json")
    first = carrel(*command)
    assert outcomes(first) == {"a.md": "uploaded", "in/b.txt": "uploaded", "in/twice.txt": "duplicate"}
    (tree / "a.md").write_text("# Terns\n\nThe tern dives again.")
    again = carrel(*command)
    assert outcomes(again) == {"a.md": "uploaded", "in/b.txt": "unchanged", "in/twice.txt": "duplicate"}
    listed = carrel("documents", "list", "--json")
    assert {(one["external_id"], one["version"], one["status"]) for one in listed} == {
        ("a.md", 2, "ready"), ("in/b.txt", 1, "ready")
    }  # fmt: skip
    assert all(one["metadata"] == {"a": 1} for one in listed)
    told = carrel("upload", str(tree / "drafts"), "--prefix", "drafts/", "--include", "*.md", "--no-wait", "--json")
    assert outcomes(told) == {"drafts/e.md": "uploaded"}


def test_upload_failed_file_is_reported_and_others_continue(carrel: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("The tern.")
    (tmp_path / "cut.docx").write_bytes(b"PK\x03\x04")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    told = carrel("upload", str(tmp_path), "--json", status=1)
    assert {one["external_id"]: one.get("error", {}).get("code") for one in told} == {
        "good.txt": None, "cut.docx": "unsupported_media_type", "broken.pdf": "corrupt"
    }  # fmt: skip
    failed = carrel("jobs", "list", "--failed", "--json")
    assert [(one["source"], one["error"]["code"]) for one in failed] == [("broken.pdf", "corrupt")]
    assert "corrupt:" in carrel("jobs", "list")
    assert carrel("jobs", "retry", "--json") == []


def test_jobs_queue_and_restart_show_failed_jobs(carrel: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    carrel("upload", str(tmp_path), "--json", status=1)
    [job] = carrel("jobs", "queue", "--state", "failed", "--json")
    assert (job["kind"], job["error"]["code"]) == ("ingest_document", "corrupt")
    assert "corrupt:" in carrel("jobs", "queue", "--kind", "ingest_document")
    assert carrel("jobs", "show", job["id"], "--json")["id"] == job["id"]
    assert carrel("jobs", "restart", "--error-code", "nothing", "--json") == {"retried": 0}
    assert carrel("jobs", "restart", job["id"], "--json") == {"retried": 1}
    assert "--kind" in carrel("jobs", "restart", job["id"], "--kind", "x", status=2)


def test_deletions_commands_list_and_show_receipts(carrel: Callable[..., Any], tenant: Tenant) -> None:
    document = tenant.add_text("Short.")["id"]
    deletion = carrel("documents", "delete", document, "--yes", "--json")["deletion"]
    assert [receipt["id"] for receipt in carrel("deletions", "list", "--kb", "default", "--json")] == [deletion]
    assert deletion in carrel("deletions", "list")
    assert carrel("deletions", "show", deletion, "--json")["documents"] == 1


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["upload", "/nowhere/at/all"], 2, "does not exist"),
        (["upload", ".", "--metadata", "[1]"], 2, "--metadata takes a JSON object"),
        (["search", "x", "--filter", "{"], 2, "--filter takes a JSON object"),
        (["search", "x", "--filter", '{"year": NaN}'], 2, "--filter takes a JSON object"),
        (["search", "x", "--filter", '{"name": "\\ud800"}'], 2, "--filter takes a JSON object"),
        (["search", "x", "--strategy", "none"], 1, "422"),
        (["search", "x", "--include", "colours"], 1, "422"),
        (["search", "x", "--score-threshold", "much"], 2, "--score-threshold takes a number from -1 to 1, or auto"),
        (["search", "x", "--score-threshold", "1.5"], 2, "--score-threshold takes a number from -1 to 1, or auto"),
        (["search", "x", "--score-threshold", "nan"], 2, "--score-threshold takes a number from -1 to 1, or auto"),
        (["search", "x", "--score-threshold", ""], 2, "--score-threshold takes a number from -1 to 1, or auto"),
        (["kb", "show", "none"], 1, "404"),
        (["kb", "sql-view", "show", "default"], 1, "404"),
        (["documents", "show", "doc_none"], 1, "404"),
        (["tenants", "list"], 1, "403"),
        (["search", "x", "--top-k", "0"], 2, "top-k"),
    ],
)
def test_invalid_arguments_print_one_line(
    carrel: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: list[str], status: int, said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert said in carrel(*arguments, status=status)


def test_missing_service_or_key_is_reported(carrel: Callable[..., Any]) -> None:
    assert "does not answer" in carrel("kb", "list", status=2, url="http://127.0.0.1:1")
    assert "401" in carrel("kb", "list", status=1, key="carrel_nothing")
    found = CliRunner().invoke(app, ["kb", "list"], env=WIDE)
    assert (found.exit_code, "no service" in found.stderr.lower() or "--url" in found.stderr) == (2, True)


def test_upload_two_files_with_one_name_is_refused(carrel: Callable[..., Any], tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    refused = carrel("upload", str(tmp_path / "one"), str(tmp_path / "two"), status=2)
    assert "have the same external ID 'a.txt'" in refused


@pytest.mark.capability("cli-search")
def test_search_command_prints_results_without_control_characters(carrel: Callable[..., Any], tenant: Tenant) -> None:
    tenant.add_text("The tern dives for fish.\x1b[31m [bold]plainly[/bold]", title="Terns", metadata={"year": 2026})
    table = carrel("search", "tern", "--kb", "default", "--filter", '{"year": 2026}')
    assert "The tern dives for fish.[31m [bold]plainly[/bold]" in table
    assert "\x1b[31m" not in table
    found = carrel("search", "tern", "--top-k", "1", "--strategy", "lexical", "--json")
    assert (len(found["results"]), found["strategy"]) == (1, "lexical")
    assert "Nothing found." in carrel("search", "tern", "--filter", '{"year": 1}')
    assert "Nothing found." in carrel("search", "heron", "--score-threshold", "0.9999")
    assert carrel("search", "tern", "--score-threshold", "-1", "--json")["warnings"] == []
    calibrated = carrel("search", "How does a tern catch fish?", "--score-threshold", "auto", "--json")
    assert (len(calibrated["results"]), calibrated["warnings"]) == (1, [])
    assert [item["knowledge_base"] for item in calibrated["auto_thresholds"]] == ["default"]
    included = carrel("search", "tern", "--include", "entities", "--include", "keywords")
    assert "[Entities: Terns" in included
    assert "[Keywords: " in included
    [warning] = carrel("search", "?", "--strategy", "lexical", "--json")["warnings"]
    assert warning["code"] == "query_terms_missing"
    asked = ["search", "?", "--strategy", "lexical", "--url", tenant.service.url, "--key", tenant.key]
    assert CliRunner().invoke(app, asked, env=WIDE).stderr == f"carrel: {warning['message']}\n"
    tenant.add_text("A tern may grow thirty years old.", title="Age")
    tenant.admin.patch("/v1/knowledge-bases/default", json={"retrieval": {"top_k": 1}}).raise_for_status()
    assert len(carrel("search", "tern", "--kb", "default", "--json")["results"]) == 1
    assert len(carrel("search", "tern", "--kb", "default", "--top-k", "2", "--json")["results"]) == 2


def test_kb_and_documents_commands_manage_objects(carrel: Callable[..., Any], tmp_path: Path) -> None:
    made = carrel("kb", "create", "birds", "--title", "Birds", "--settings", '{"description": "Of birds."}', "--json")
    assert (made["name"], made["title"], made["description"]) == ("birds", "Birds", "Of birds.")
    assert carrel("kb", "update", "birds", '{"title": "All birds"}', "--json")["title"] == "All birds"
    assert [one["name"] for one in carrel("kb", "list", "--json")] == ["birds", "default"]
    assert "All birds" in carrel("kb", "show", "birds")
    (tmp_path / "a.txt").write_text("The tern.")
    (told,) = carrel("upload", str(tmp_path / "a.txt"), "--kb", "birds", "--json")
    document = told["document"]
    assert carrel("documents", "show", document, "--kb", "birds", "--json")["chunk_count"] == 1
    assert [one["text"] for one in carrel("documents", "chunks", document, "--kb", "birds", "--json")] == ["The tern."]
    carrel("documents", "download", document, str(tmp_path / "b.txt"), "--kb", "birds")
    assert (tmp_path / "b.txt").read_text() == "The tern."
    assert carrel("documents", "reindex", document, "--kb", "birds", "--json")["id"] == document
    carrel("documents", "delete", document, "--kb", "birds", status=1)  # without --yes
    assert carrel("documents", "delete", document, "--kb", "birds", "--yes", "--json")["deletion"].startswith("del_")
    assert carrel("kb", "delete", "birds", "--yes", "--json")["deletion"].startswith("del_")


def test_entities_commands_correct_and_undo(carrel: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Then Acme Alpha met Acme Beta.")
    (told,) = carrel("upload", str(tmp_path / "a.txt"), "--json")
    entities = partial(carrel, "kb", "entities")
    ids = {one["name"]: one["id"] for one in entities("list", "default", "--prefix", "acme", "--json")}
    assert sorted(ids) == ["Acme Alpha", "Acme Beta"]
    alpha, beta = ids["Acme Alpha"], ids["Acme Beta"]
    assert "Acme Beta" in entities("list", "default", "--q", "beta")
    assert entities("merge", "default", beta, "--into", alpha, "--json") == {"entity": alpha}
    assert entities("show", "default", beta, "--json")["aliases"] == [{"id": beta, "name": "Acme Beta"}]
    name = "Acme Alpha (the ship)"
    other = entities("split", "default", alpha, told["document"], "--to", name, "--json")["entity"]
    assert entities("show", "default", other, "--json")["name"] == name
    rows = entities("corrections", "default", "--json")
    assert {row["document"] for row in rows} == {told["document"], None}
    for row in rows:
        assert entities("undo", "default", row["id"], "--json") == {"undone": row["id"]}
    assert len(entities("list", "default", "--prefix", "acme", "--json")) == 2
    entities("undo", "default", rows[0]["id"], status=1)


def test_keys_and_tenants_commands_manage_objects(carrel: Callable[..., Any], service: Service) -> None:
    made = carrel("keys", "create", "website", "--kb", "default", "--json")
    assert made["role"] == "reader"
    assert carrel("kb", "list", "--json", key=made["key"])
    newer = carrel("keys", "rotate", made["id"], "--overlap-seconds", "0", "--json")
    carrel("keys", "revoke", newer["id"], "--yes")
    assert newer["id"] not in carrel("keys", "list")
    tenant = carrel("tenants", "create", "acme", "--quotas", '{"documents": 3}', "--json", key=OPERATOR_KEY)
    assert carrel("tenants", "show", tenant["id"], "--json", key=OPERATOR_KEY)["quotas"]["documents"] == 3
    changed = carrel("tenants", "update", tenant["id"], "--name", "acme 2", "--json", key=OPERATOR_KEY)
    assert (changed["name"], changed["quotas"]["documents"]) == ("acme 2", 3)
    assert tenant["id"] in carrel("tenants", "list", key=OPERATOR_KEY)
    for option, allowed in (("--sql-views", True), ("--no-sql-views", False)):
        changed = carrel("tenants", "update", tenant["id"], option, "--json", key=OPERATOR_KEY)
        assert (changed["sql_views"], changed["quotas"]["documents"]) == (allowed, 3)
    carrel("tenants", "delete", tenant["id"], "--yes", key=OPERATOR_KEY)


def test_upload_watch_uploads_changes_until_ctrl_c(tenant: Tenant, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The tern.")
    settings = {"CARREL_URL": tenant.service.url, "CARREL_API_KEY": tenant.key}
    process = subprocess.Popen(
        [*COMMAND, "upload", str(tmp_path), "--watch"], env=environment(settings), cwd=tmp_path, text=True,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        # Standard error is no terminal: it has lines, but no progress bars.
        while "Watching" not in (line := process.stderr.readline()):
            assert line, "it ended"
        (tmp_path / "b.txt").write_text("The heron.")
        (tmp_path / "a.txt").write_text("The tern, again.")
        deadline = time.monotonic() + 60
        while documents(tenant) != {("a.txt", 2, "ready"), ("b.txt", 1, "ready")}:
            assert time.monotonic() < deadline, documents(tenant)
            time.sleep(0.1)
    finally:
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130


def documents(tenant: Tenant) -> set[tuple[str, int, str]]:
    items = tenant.admin.get("/v1/knowledge-bases/default/documents").json()["items"]
    return {(one["external_id"], one["version"], one["status"]) for one in items}


def test_search_command_collapse_prints_sources_of_identical_passages(
    carrel: Callable[..., Any], tenant: Tenant
) -> None:
    for name in ("spring.txt", "autumn.txt"):
        tenant.add_text("Storks rest on the meadow.", title=name, external_id=name)
    (result,) = carrel("search", "storks on the meadow", "--strategy", "lexical", "--collapse", "--json")["results"]
    assert result["duplicate_count"] == 1
    table = carrel("search", "storks on the meadow", "--strategy", "lexical", "--collapse")
    assert f"[Also in: {result['duplicates'][0]['source']}]" in table


@pytest.mark.capability("cli-upload-chat")
def test_upload_with_chat_id_stores_documents_of_chat_of_user(
    carrel: Callable[..., Any], tenant: Tenant, tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_text("The gull of this chat.")
    chat = ["--chat-id", "c1"]
    for options in (["--user-id", "u1", *chat], ["--user-id", "u2", *chat], chat):
        for outcome in ("uploaded", "unchanged"):
            assert outcomes(carrel("upload", str(tmp_path), *options, "--json")) == {"note.txt": outcome}
    scopes = [{"user_id": "u1", "chat_id": "c1"}, {"user_id": "u2", "chat_id": "c1"}, {"chat_id": "c1"}]
    found = []
    for scope in scopes:
        body = {"query": "the gull of this chat", "strategy": "lexical", "scope": scope}
        results = tenant.admin.post("/v1/knowledge-bases/default/search", json=body).json()["results"]
        found.append({result["document"]["id"] for result in results})
    assert [len(ids) for ids in found] == [1, 1, 1]
    assert len(set().union(*found)) == 3
