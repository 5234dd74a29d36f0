"""``carrel export`` and ``carrel import``: files, output, exit status and continuation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.transfer.tar import END_MARKER
from harness.archives import ArchiveDocument, build_archive
from harness.running_service import Service, Tenant
from tests.transfer.test_round_trip import found, take

WIDE = {"COLUMNS": "400", "TERM": "dumb", "CARREL_DATA_DIR": "/nowhere"}
Carrel = Callable[..., Any]


@pytest.fixture
def carrel(service: Service) -> Carrel:
    """Runner of commands with a tenant's key. It returns the printed JSON, or else standard error."""

    def run(tenant: Tenant, *arguments: str, status: int = 0) -> Any:
        options = ["--url", service.url, "--key", tenant.key]
        ended = CliRunner().invoke(app, [*arguments, *options], env=WIDE)
        assert ended.exit_code == status, ended.output
        return json.loads(ended.stdout) if "--json" in arguments and ended.stdout else ended.stderr

    return run


@pytest.fixture(scope="module")
def full(service: Service) -> Tenant:
    tenant = service.create_tenant("full")
    for number in range(4):
        tenant.add_text(f"Bird {number} dives into the sea.", external_id=f"bird-{number}")
    return tenant


@pytest.mark.capability("cli-transfer")
def test_export_import_command_round_trip_is_complete(
    carrel: Carrel, service: Service, full: Tenant, tmp_path: Path
) -> None:
    file, other = tmp_path / "birds.tar", service.create_tenant("other")
    told = carrel(full, "export", "default", "--to", str(file), "--json")
    assert told == {"file": str(file), "bytes": file.stat().st_size, "documents": 4, "skipped": []}
    assert [one.name for one in tmp_path.iterdir()] == ["birds.tar"]
    assert carrel(other, "import", str(file), "--kb", "birds", "--json") == {
        "documents": 4, "chunks": 4, "existing": 0, "conflicts": 0
    }  # fmt: skip
    body = {"query": "Which bird dives?", "top_k": 4}
    assert found(other.admin, "birds", body) == found(full.admin, "default", body)
    again = carrel(other, "import", str(file), "--kb", "birds", "--json")
    assert again == {"documents": 0, "chunks": 0, "existing": 4, "conflicts": 0}


def test_import_command_continues_after_interruption(
    carrel: Carrel, service: Service, full: Tenant, tmp_path: Path
) -> None:
    file, other = tmp_path / "birds.tar", service.create_tenant("resumed")
    carrel(full, "export", "default", "--to", str(file))
    content = file.read_bytes()
    broken = take(other, "default", content[: content.index(b"documents/0000003/")])
    assert broken.json()["type"].endswith("archive_truncated")
    told = carrel(other, "import", str(file), "--kb", "default", "--json")
    assert told == {"documents": 2, "chunks": 2, "existing": 2, "conflicts": 0}


def test_import_command_sends_many_documents_in_parts(carrel: Carrel, service: Service, tmp_path: Path) -> None:
    tenant = service.create_tenant("many")
    take(
        tenant, "default", build_archive(*(ArchiveDocument([f"Text {number}."]) for number in range(103)))
    ).raise_for_status()
    carrel(tenant, "export", "default", "--to", str(tmp_path / "many.tar"))
    told = carrel(tenant, "import", str(tmp_path / "many.tar"), "--kb", "copy", "--json")
    assert told == {"documents": 103, "chunks": 103, "existing": 0, "conflicts": 0}


def test_import_command_conflict_exits_with_1(carrel: Carrel, service: Service, full: Tenant, tmp_path: Path) -> None:
    file, other = tmp_path / "birds.tar", service.create_tenant("conflicting")
    carrel(full, "export", "default", "--to", str(file))
    other.add_text("Another bird.", external_id="bird-1")
    told = carrel(other, "import", str(file), "--kb", "default", "--json", status=1)
    assert told == {"documents": 3, "chunks": 3, "existing": 0, "conflicts": 1}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda content: content[: content.rindex(b"SHA256SUMS")] + END_MARKER, "ends too early"),
        (lambda content: content[:5000], "damaged"),
        (lambda content: content.replace(b"dives", b"DIVES", 1), "hashes of the archive do not match"),
        (lambda _: b"no archive", "damaged"),
        (lambda _: build_archive(ArchiveDocument(["A."])), "ends too early"),
    ],
    ids=["cut", "cut in a file", "changed", "none", "without hashes"],
)
def test_import_command_damaged_archive_sends_nothing(
    carrel: Carrel, service: Service, full: Tenant, tmp_path: Path, damage: Callable[[bytes], bytes], said: str
) -> None:
    file, other = tmp_path / "birds.tar", service.create_tenant("spared")
    carrel(full, "export", "default", "--to", str(file))
    file.write_bytes(damage(file.read_bytes()))
    assert said in carrel(other, "import", str(file), "--kb", "birds", status=2)
    assert [kb["name"] for kb in other.admin.get("/v1/knowledge-bases").json()["items"]] == ["default"]


def test_export_command_does_not_overwrite_file(carrel: Carrel, full: Tenant, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    assert "--force" in carrel(full, "export", "default", "--to", str(tmp_path / "mine"), status=2)
    carrel(full, "export", "default", "--to", str(tmp_path / "mine"), "--force")
    assert "404" in carrel(full, "export", "nothing", "--to", str(tmp_path / "none"), status=1)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["mine"]
