"""Compressed request bodies: gzip is decoded under the limits of bodies, other encodings are refused."""

import gzip
import json
import zlib
from typing import Any

import pytest

from harness.running_service import Tenant
from tests.api.problems import assert_problem

SEARCH = "/v1/knowledge-bases/default/search"
DOCUMENTS = "/v1/knowledge-bases/default/documents"


@pytest.fixture
def tenant(service: Any) -> Tenant:
    created: Tenant = service.create_tenant("compressed")
    created.add_text("Parents may take up to 14 months of parental leave.")
    return created


def post(tenant: Tenant, path: str, body: bytes, encoding: str, kind: str = "application/json") -> Any:
    headers = {"Content-Encoding": encoding, "Content-Type": kind}
    return tenant.admin.post(path, content=body, headers=headers)


def compress(body: Any) -> bytes:
    return gzip.compress(json.dumps(body).encode())


@pytest.mark.capability("api-gzip")
@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip", "identity, gzip", "gzip ,identity"])
def test_gzip_body_is_decoded(tenant: Tenant, encoding: str) -> None:
    reply = post(tenant, SEARCH, compress({"query": "parental leave"}), encoding)
    assert "14 months" in reply.raise_for_status().json()["results"][0]["text"]


def test_gzip_body_of_several_members_is_decoded(tenant: Tenant) -> None:
    first, second = b'{"query": "parental', b' leave"}'
    reply = post(tenant, SEARCH, gzip.compress(first) + gzip.compress(second), "gzip")
    assert reply.raise_for_status().json()["queries"] == ["parental leave"]


@pytest.mark.parametrize("path", [DOCUMENTS, "/v1/preview"])
def test_gzip_text_upload_is_decoded(tenant: Tenant, path: str) -> None:
    text = "The museum opens at nine. " * 20_000
    reply = post(tenant, path, compress({"text": text[:500_000]}), "gzip")
    assert reply.status_code in (200, 202), reply.text


def test_gzip_form_is_decoded(tenant: Tenant) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nOpen at nine.\r\n--x--\r\n'
    reply = post(tenant, f"{DOCUMENTS}?wait=30", gzip.compress(form), "gzip", "multipart/form-data; boundary=x")
    assert reply.raise_for_status().json()["status"] == "ready"


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip", "gzip, br", "unknown"])
@pytest.mark.parametrize("path", [SEARCH, DOCUMENTS, "/mcp"])
def test_other_encoding_is_415_with_accepted_ones(tenant: Tenant, path: str, encoding: str) -> None:
    reply = post(tenant, path, b"x", encoding)
    assert_problem(reply, 415, "unsupported_content_encoding")
    assert reply.headers["accept-encoding"] == "gzip, identity"


@pytest.mark.parametrize(
    "body",
    [
        b"no gzip",
        compress({"query": "a"})[:-5],
        compress({"query": "a"}) + b"rest",
        zlib.compress(b"{}"),
        compress({"query": "a"})[:12] + b"damage" + compress({"query": "a"})[12:],
    ],
    ids=["plain", "cut", "rest", "zlib", "damaged"],
)
def test_invalid_gzip_is_422(tenant: Tenant, body: bytes) -> None:
    reply = post(tenant, SEARCH, body, "gzip")
    assert_problem(reply, 422, "invalid")
    assert "gzip" in reply.json()["detail"]


def test_limits_apply_to_decoded_bytes(tenant: Tenant) -> None:
    zeros = gzip.compress(b'{"query": "' + b"a" * (64 * 1024 * 1024) + b'"}')
    assert len(zeros) < 100_000
    assert_problem(post(tenant, SEARCH, zeros, "gzip"), 413)
    many = compress({"query": "a", "filter": {"a": [1] * 300_000}})
    assert_problem(post(tenant, SEARCH, many, "gzip"), 413)
    assert_problem(post(tenant, "/mcp", gzip.compress(b" " * 2_000_000), "gzip"), 413)


def test_compressed_empty_body_is_invalid(tenant: Tenant) -> None:
    for body in (b"", gzip.compress(b"")):
        assert_problem(post(tenant, SEARCH, body, "gzip"), 422, "invalid")
