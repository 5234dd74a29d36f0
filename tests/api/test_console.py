"""The console's page, files and catalogs: headers, deep links, and no path of the API shadowed."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.api.console import SCREENS

if TYPE_CHECKING:
    from harness.running_service import Service, Tenant

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "app/api/console/static"
SOURCES = ROOT / "console/src"
MANIFEST = json.loads((STATIC / "manifest.json").read_text())
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob:",
    "connect-src 'self'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
}


@pytest.mark.capability("console")
@pytest.mark.parametrize("path", ["/", "/search?q=x", "/knowledge-bases/handbook/documents/doc_1", "/knowledge-bases/"])
def test_page_and_deep_links_answer_under_strict_policy(service: Service, path: str) -> None:
    with service.create_client(None) as client:
        reply = client.get(path)
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        assert set(reply.headers["content-security-policy"].split("; ")) == POLICY
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cache-control"] == "no-cache"
        assert "set-cookie" not in reply.headers
        again = client.get(path, headers={"If-None-Match": reply.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    assert "<script>" not in reply.text
    assert " style=" not in reply.text
    assert not re.search(r'(?:src|href)="(?!/console/)', reply.text)


def test_page_behind_a_proxy_names_files_below_its_path() -> None:
    from starlette.testclient import TestClient

    from harness.unopened_app import create_unopened_app

    page = TestClient(create_unopened_app(), root_path='/carrel/"x').get("/").text
    assert 'data-root="/carrel/&quot;x"' in page
    assert f'src="/carrel/&quot;x/console/{MANIFEST["page"]["script"]}"' in page


def test_every_file_of_the_manifest_is_served_for_a_year(service: Service) -> None:
    assert set(MANIFEST["page"].values()) <= set(MANIFEST["files"])
    with service.create_client(None) as client:
        page = client.get("/").text
        for name, expected in MANIFEST["files"].items():
            reply = client.get(f"/console/{name}")
            assert reply.status_code == 200
            assert hashlib.sha256(reply.content).hexdigest() == expected["sha256"]
            assert expected["sha256"][:12] in name
            assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert name in page


def test_manifest_names_exactly_the_committed_files() -> None:
    assert {path.name for path in STATIC.iterdir()} == {"manifest.json", *MANIFEST["files"]}
    for name, expected in MANIFEST["files"].items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == expected["sha256"]


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1/nothing", "/console/nothing.js", "/console/manifest.json", "/searches"]
)
def test_unknown_path_is_still_a_problem(service: Service, path: str) -> None:
    with service.create_client(None) as client:
        reply = client.get(path)
    assert reply.status_code == 404
    assert reply.headers["content-type"] == "application/problem+json"


def test_screens_share_no_first_path_part_with_the_api(tenant: Tenant) -> None:
    document = tenant.admin.get("/openapi.json").json()
    first_parts = {path.split("/")[1] for path in document["paths"]}
    assert not first_parts & set(SCREENS)
    assert not [path for path in document["paths"] if path == "/" or path.startswith("/console")]
    assert tenant.admin.get("/docs").status_code == 200
    assert tenant.admin.get("/v1/knowledge-bases").headers["content-type"] == "application/json"


def test_client_router_knows_every_screen() -> None:
    app = (SOURCES / "app.tsx").read_text()
    assert {name for name in SCREENS if f'first === "{name}"' in app} == set(SCREENS)


def test_types_of_the_console_agree_with_the_api() -> None:
    """Every field that the console knows exists with its type. Newer fields may be missing until `make console`."""
    from scripts.build_console_types import TARGET, build_types

    def read_fields(text: str) -> set[tuple[str, str]]:
        blocks = re.findall(r"^export interface (\w+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
        return {(name, line.strip()) for name, body in blocks for line in body.splitlines()}

    assert read_fields(TARGET.read_text()) - read_fields(build_types()) == set()


def _read_sources() -> str:
    paths = [path for path in SOURCES.rglob("*.ts*") if path.name != "schema.d.ts"]
    assert len(paths) > 10
    return "\n".join(path.read_text() for path in paths)


def test_catalogs_have_the_same_keys_and_placeholders() -> None:
    catalogs = {name: json.loads((SOURCES / f"i18n/{name}.json").read_text()) for name in ("en", "de")}
    assert list(catalogs["en"]) == list(catalogs["de"])
    for key, text in catalogs["en"].items():
        assert re.findall(r"\{\w+\}", text) == re.findall(r"\{\w+\}", catalogs["de"][key]), key
        assert catalogs["de"][key].strip(), key


def test_sources_use_every_key_of_the_catalogs_and_no_other() -> None:
    sources = _read_sources()
    keys = set(json.loads((SOURCES / "i18n/en.json").read_text()))
    plural = {key.rpartition(".")[0] for key in keys if key.endswith(".one")}
    assert {f"{key}.other" for key in plural} <= keys
    known = {key for key in keys if key.rpartition(".")[0] not in plural} | plural
    quoted = set(re.findall(r'"([a-zA-Z]+(?:\.[a-zA-Z_]+)+)"', sources))
    assert known - quoted == set()
    called = set(re.findall(r'\btn?\(\s*"([^"]+)"', sources))
    assert called - known == set()


def test_sources_neither_parse_html_nor_use_other_storage_for_the_key() -> None:
    sources = _read_sources()
    forbidden = ("innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySet", "document.write", "eval(", "cookie")
    assert [word for word in forbidden if word in sources] == []
    session = (SOURCES / "session.ts").read_text()
    assert "localStorage" not in session


def test_modules_have_at_most_400_lines() -> None:
    paths = [path for path in (ROOT / "console").rglob("*.[tcm]*s*") if "node_modules" not in path.parts]
    long = {path.name for path in paths if len(path.read_text().splitlines()) > 400}
    assert long - {"schema.d.ts"} == set()


def test_lock_names_no_host_of_packages() -> None:
    lock = json.loads((ROOT / "console/package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    declared = json.loads((ROOT / "console/package.json").read_text())
    versions = {**declared["dependencies"], **declared["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())
