"""Downloads of originals, streamed or by link: shown inline only if that is safe, with any file name."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

import httpx2
import pytest

from app.ids import decode_id
from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.fixtures.s3 import S3Server

SAMPLES = Path(__file__).parents[1] / "samples"
DOCUMENTS = "/v1/knowledge-bases/default/documents"
LONGEST_LINK_SECONDS = 300
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script><text>seals</text></svg>'
HTML = b"<!DOCTYPE html><html><body><script>alert(1)</script><p>seals</p></body></html>"


@pytest.fixture(scope="module")
def linking(
    make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server
) -> Iterator[Service]:
    """Service whose object store presigns links."""
    with EmbeddingServer(dimensions=64) as embedding:
        settings = build_settings(
            tmp_path_factory.mktemp("linking"),
            object_store={
                "CARREL_S3_BUCKET": s3_server.bucket,
                "CARREL_S3_ENDPOINT_URL": s3_server.endpoint_url,
                "CARREL_S3_PUBLIC_ENDPOINT_URL": s3_server.endpoint_url,
                "CARREL_S3_ACCESS_KEY_ID": s3_server.access_key_id,
                "CARREL_S3_SECRET_ACCESS_KEY": s3_server.secret_access_key,
            },
            embedding=embedding.settings,
        )
        with run_service(settings, make_database(), worker=False) as running:
            yield running


@pytest.fixture(params=["streamed", "linked"])
def sender(request: pytest.FixtureRequest) -> Tenant:
    """Tenant of a service that streams originals, or of one that links to them."""
    name = "service" if request.param == "streamed" else "linking"
    made: Service = request.getfixturevalue(name)
    return made.create_tenant()


def upload(tenant: Tenant, filename: bytes, content: bytes) -> str:
    """Send a raw upload, because no client sends such file names. Return the path of the document."""
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="' + filename + b'"\r\n'
    body += b"Content-Type: text/html\r\n\r\n" + content + b"\r\n--b--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    reply = tenant.admin.post(DOCUMENTS, content=body, headers=headers)
    assert reply.status_code in (200, 202), reply.text
    return f"{DOCUMENTS}/{reply.json()['id']}"


def original(tenant: Tenant, path: str) -> httpx2.Response:
    """Return the original as a browser gets it, which sends no key to another host."""
    reply = tenant.admin.get(f"{path}/content")
    if reply.status_code == 302:
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["referrer-policy"] == "no-referrer"
        return httpx2.get(reply.headers["location"])
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-security-policy"] == "sandbox"
    return reply


@pytest.mark.parametrize(
    ("name", "content", "kind", "media_type"),
    [
        ("a.pdf", SAMPLES / "outline.pdf", "inline", "application/pdf"),
        ("a.png", SAMPLES / "photo.png", "inline", "image/png"),
        ("a.txt", b"seals", "inline", "text/plain"),
        ("a.html", HTML, "attachment", "text/html"),
        ("a.txt", HTML, None, None),
        ("a.svg", SVG, "attachment", None),
        ("a.png", SVG, "attachment", None),
        ("a.xml", b'<?xml version="1.0"?><a>seals</a>', "attachment", None),
        ("a.md", b"# Seals", "attachment", "text/markdown"),
        ("a.json", b'{"a": "seals"}', "attachment", "application/json"),
        ("a.docx.pdf", SAMPLES / "workbook.xlsx", "attachment", None),
    ],
    ids=lambda value: None if not isinstance(value, str) else value,
)
def test_download_only_safe_types_are_inline(
    sender: Tenant, name: str, content: bytes | Path, kind: str | None, media_type: str | None
) -> None:
    sent = content if isinstance(content, bytes) else content.read_bytes()
    reply = original(sender, upload(sender, name.encode(), sent))
    assert (reply.status_code, reply.content) == (200, sent)
    found = reply.headers["content-type"].partition(";")[0]
    shown = reply.headers["content-disposition"].partition(";")[0]
    assert kind is None or shown == kind
    assert media_type is None or found == media_type
    # Active content is never shown inline, whatever its name.
    assert shown == "attachment" or found in ("application/pdf", "text/plain", "image/png")


@pytest.mark.parametrize(
    "name",
    [
        b"a\r\nSet-Cookie: a=b",
        b'a\\"; filename=evil.html; x=\\".txt',
        b"a%0d%0aSet-Cookie: a=b.txt",
        b"../../../etc/passwd.txt",
        b"..\\..\\windows\\win.ini.txt",
        b"C:\\fakepath\\a.txt",
        "Übergröße – 日本語 \U0001f9ed.txt".encode(),
        "rtl\u202etxt.exe.txt".encode(),
        b"a;b,c='d' %41.txt",
        b"\xff\xfe.txt",
        b"x" * 300 + b".txt",
        "語".encode() * 300 + b".txt",
        b"",
        b"..",
        b"CON",
        b"a\x00b\x1f\x7f.txt",
    ],
    ids=lambda name: ascii(name)[:40],
)
def test_download_any_name_gives_one_safe_header(sender: Tenant, name: bytes) -> None:
    content = b"seals " + name.hex().encode()
    reply = original(sender, upload(sender, name, content))
    assert reply.content == content
    header = reply.headers["content-disposition"]
    assert header.isascii()
    assert header.isprintable()
    assert len(header) < 4000
    assert "set-cookie" not in reply.headers
    found = re.fullmatch(r'(?:inline|attachment); filename="([^"\\]*)"; filename\*=UTF-8\'\'([^"\\; ]*)', header)
    assert found is not None, header
    plain, told = found[1], unquote(found[2])
    for one in (plain, told):
        assert one
        assert not set(one) & set("/\\\r\n\0\u202e")
        assert one.strip(".") == one
    assert not name.endswith(b".txt") or (plain.endswith(".txt") and told.endswith(".txt"))


def test_download_link_is_short_lived_and_opens_one_object(linking: Service, s3_server: S3Server) -> None:
    tenant, other = linking.create_tenant(), linking.create_tenant()
    path = upload(tenant, b"a.txt", b"seals")
    link = tenant.admin.get(f"{path}/content").headers["location"]
    parts = urlsplit(link)
    bucket, tenant_id, document_id, _ = parts.path.strip("/").split("/")
    assert bucket == s3_server.bucket
    assert UUID(tenant_id) == decode_id("ten", tenant.id)
    assert UUID(document_id) == decode_id("doc", path.rpartition("/")[2])
    query = {name: values for name, values in parse_qs(parts.query).items() if name.startswith("X-Amz")}
    assert int(query["X-Amz-Expires"][0]) <= LONGEST_LINK_SECONDS
    assert query["X-Amz-SignedHeaders"] == ["host"]
    assert s3_server.secret_access_key not in link
    assert other.admin.get(f"{path}/content").status_code == 404
    assert linking.create_client().get(f"{path}/content").status_code == 401
    # Only the store can sign: a link for another object needs another signature.
    signed = {
        parse_qs(urlsplit(tenant.admin.get(f"{one}/content").headers["location"]).query)["X-Amz-Signature"][0]
        for one in (path, upload(tenant, b"b.txt", b"other seals"))
    }
    assert len(signed) == 2
