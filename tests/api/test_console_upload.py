"""Upload of files in the console, in Chromium. Needs Node, `make console`, Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.console_browser import BROWSER_MARKS, run_browser

if TYPE_CHECKING:
    from harness.running_service import Service, Tenant

ROOT = Path(__file__).parents[2]
PAYLOAD = "<img src=x onerror=pwned=1>.md"

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def tenant(service: Service) -> Tenant:
    return service.create_tenant("uploads")


@pytest.fixture(scope="module")
def report(service: Service, tenant: Tenant, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Report of one run of ``console/tests/upload.mjs``."""
    folder = tmp_path_factory.mktemp("upload")
    contents = {
        "broken.pdf": b"%PDF-1.7 broken",
        "note.md": b"# Leave\n\nParents may take up to 14 months of parental leave.",
        "empty.txt": b"",
        PAYLOAD: b"# Payload\n\n<img src=x onerror=pwned=1>",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    nested = folder / "policies/2026"
    nested.mkdir(parents=True)
    for number in range(3):
        (nested / f"policy-{number}.md").write_text(f"# Policy {number}\n\nRule {number} holds from 2026.")
    files = {
        "handbook": str(ROOT / "samples/handbook.pdf"),
        "broken": str(folder / "broken.pdf"),
        "note": str(folder / "note.md"),
        "empty": str(folder / "empty.txt"),
        "payload": str(folder / PAYLOAD),
    }
    keys = {"admin": tenant.key}
    for role in ("writer", "reader"):
        keys[role] = tenant.admin.post("/v1/api-keys", json={"name": f"a {role}", "role": role}).json()["key"]
    return run_browser("upload.mjs", service.url, keys, files=files, folder=str(folder / "policies"))


def test_upload_screen_is_accessible_and_breaks_no_policy(report: dict[str, Any]) -> None:
    assert report["reports"] == []
    assert report["errors"] == []
    assert report["foreign"] == []
    assert report["leaks"] == []
    assert report["markup"] == []
    assert report["violations"] == []
    assert report["overflow"] == []


def test_files_of_fields_and_folders_are_listed_once(report: dict[str, Any]) -> None:
    policies = {f"policies/2026/policy-{number}.md" for number in range(3)}
    assert set(report["paths"]) == {"handbook.pdf", "broken.pdf"} | policies
    assert len(report["paths"]) == 5
    assert report["skipped"] is True
    assert report["dropped"] == "3 files are in the list already."


def test_sent_files_get_their_fields_and_end_ready_or_failed(report: dict[str, Any], tenant: Tenant) -> None:
    assert report["summary"].endswith("Not sent: 0. In progress: 0. Ready: 4. Failed: 1.")
    documents = tenant.admin.get("/v1/knowledge-bases/default/documents").json()["items"]
    by_id = {document["external_id"]: document for document in documents}
    assert by_id["handbook.pdf"]["title"] == "<b>Staff</b> handbook"
    assert by_id["handbook.pdf"]["status"] == "ready"
    assert by_id["handbook.pdf"]["metadata"] == {"department": "hr"}
    assert by_id["policies/2026/policy-1.md"]["source"] == "policy-1.md"
    assert report["opened"] == "<b>Staff</b> handbook"


def test_invalid_metadata_is_not_sent(report: dict[str, Any]) -> None:
    assert report["invalidMetadata"] is True
    assert report["sendIsOff"] is True


def test_uploads_run_two_at_a_time_with_a_key_each(report: dict[str, Any]) -> None:
    assert report["requests"]["most"] == 2
    assert len(set(report["requests"]["keys"])) == 5
    assert None not in report["requests"]["keys"]


def test_failed_document_shows_stage_reason_and_retry(report: dict[str, Any]) -> None:
    assert "Stage: parsing" in report["failure"]
    assert "corrupt" in report["failure"]
    assert report["retried"] == 202


def test_upload_without_reply_is_repeated_with_the_same_key_and_body(report: dict[str, Any], tenant: Tenant) -> None:
    first, second = report["attempts"]
    assert first == second
    assert report["lostReply"] == 202
    assert report["replayed"] == "true"
    assert "The service does not answer" in report["rejection"]
    documents = tenant.admin.get("/v1/knowledge-bases/default/documents").json()["items"]
    assert len([document for document in documents if document["source"] == "note.md"]) == 1


def test_rejected_file_shows_the_reason_of_the_api(report: dict[str, Any]) -> None:
    assert "empty" in report["empty"]
    assert "Another attempt will fail too" in report["empty"]
    assert "Another attempt" not in report["rejection"]


def test_preview_shows_the_chunks_and_the_quality_of_the_api(report: dict[str, Any], tenant: Tenant) -> None:
    with (ROOT / "samples/handbook.pdf").open("rb") as file:
        reply = tenant.admin.post("/v1/preview", files={"file": file}, data={"knowledge_base": "default"})
    preview = reply.json()
    assert report["previewTexts"] == [chunk["text"] for chunk in preview["chunks"]]
    assert "application/pdf" in report["previewFacts"]
    assert "Pages without text" in report["previewFacts"]
    assert report["previewFocus"] == "preview"


def test_two_chunkings_are_compared_by_the_figures_of_their_previews(report: dict[str, Any]) -> None:
    first, second = report["previews"][:2]
    rows = dict(row.split("\t", 1) for row in report["comparison"])
    assert rows["Chunks"] == f"{first['total_chunks']}\t{second['total_chunks']}"
    assert first["total_chunks"] != second["total_chunks"]
    for label, measure in (("Smallest chunk, tokens", min), ("Largest chunk, tokens", max)):
        sizes = [measure(chunk["tokens"] for chunk in preview["chunks"]) for preview in (first, second)]
        assert rows[label] == "\t".join(map(str, sizes))
    ranges = [{(chunk["start"], chunk["end"]) for chunk in preview["chunks"]} for preview in (first, second)]
    shared = len(ranges[0] & ranges[1])
    assert rows["In both"] == f"{shared}\t{shared}"
    assert report["inBoth"] == 2 * shared
    assert report["previewAddress"] == '?second={"strategy":"sentence","options":{"sentences":3}}'


def test_preview_with_an_invalid_option_shows_the_fault_at_its_field(report: dict[str, Any]) -> None:
    assert "Input should be less than or equal to 20." in report["invalidOption"]
    assert report["closed"] == 0


def test_long_list_shows_a_part_and_failures_first(report: dict[str, Any]) -> None:
    assert report["shownRows"] == [100, 150]
    assert "The quota is used up. quota_exceeded" in report["refusal"]
    assert report["lastRow"] == "note.md"


def test_leaving_with_unsent_files_asks(report: dict[str, Any]) -> None:
    assert report["stays"] == [True, True, True]


def test_reader_sees_no_permission(report: dict[str, Any]) -> None:
    assert "Uploads need a key with the role writer or admin." in report["reader"]
    assert report["readerSeesLink"] is False
