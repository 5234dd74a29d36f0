"""Small inputs that would take much memory without limits, for all operations that accept large inputs."""

import io
import json
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import httpx2

from harness.hostile.exports import ExportedArchive, edit_lines
from harness.hostile.pdfs import build_pdf
from harness.hostile.zip_packages import build_book, build_paragraph, build_workbook, pack_zip

TAR_MEDIA_TYPE = "application/x-tar"
GIANT_CHUNKS = 20_000
UNFINISHED_STATES = ("queued", "parsing", "chunking", "embedding")
LINE_BYTES = 120 * 1024 * 1024


@dataclass(slots=True)
class AttackTarget:
    """Running service with a small document, its archive, and one document of many chunks."""

    client: httpx2.Client
    archive: ExportedArchive
    giant_ids: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def prepare(cls, client: httpx2.Client) -> "AttackTarget":
        """Create the small document and export its archive.

        Args:
            client: Client of the service.
        """
        client.timeout = 200
        text = "The quarterly report is due on the first of May.\n\nHolidays are 30 days."
        client.post("/v1/knowledge-bases", json={"name": "small"}).raise_for_status()
        client.post("/v1/knowledge-bases/small/documents?wait=60", json={"text": text}).raise_for_status()
        archive = ExportedArchive.from_bytes(client.get("/v1/knowledge-bases/small/export").raise_for_status().content)
        return cls(client, archive)

    def get_giant_document(self) -> str:
        """Return the id of the document with ``GIANT_CHUNKS`` chunks in the knowledge base ``giant``.

        The first call imports it.
        """
        with self.lock:
            if not self.giant_ids:
                self.client.post("/v1/knowledge-bases", json={"name": "giant"}).raise_for_status()
                parts = self.archive.build_chunked_parts(GIANT_CHUNKS)
                self.import_archive("giant", self.archive.with_parts(name="giant", parts=parts)).raise_for_status()
                items = self.client.get("/v1/knowledge-bases/giant/documents").json()["items"]
                self.giant_ids.append(items[0]["id"])
        return self.giant_ids[0]

    def import_archive(self, kb: str, archive: Iterable[bytes]) -> httpx2.Response:
        """Import an archive into a new knowledge base, and return the response."""
        return self.client.post(
            f"/v1/knowledge-bases/{kb}/import", content=archive, headers={"Content-Type": TAR_MEDIA_TYPE}
        )

    def upload(self, name: str, body: bytes) -> str:
        """Upload a file, wait for the end of its ingestion, and return the outcome."""
        reply = self.client.post("/v1/knowledge-bases/default/documents", files={"file": (name, body)})
        if reply.status_code >= 300:
            return _describe_reply(reply)
        return self.wait_for_outcome(reply)

    def wait_for_outcome(self, reply: httpx2.Response) -> str:
        """Wait for the end of an ingestion.

        Args:
            reply: Response to the upload.

        Returns:
            Status of the document with its error code; if the upload was refused, HTTP status and error code.
        """
        if reply.status_code >= 300:
            return _describe_reply(reply)
        url = f"/v1/knowledge-bases/default/documents/{reply.json()['id']}"
        for _ in range(2000):
            result = self.client.get(url).json()
            if result["status"] not in UNFINISHED_STATES:
                break
            time.sleep(0.1)
        return f"{result['status']} {(result.get('error') or {}).get('code', '')}".strip()

    def wait_until_idle(self, seconds: float) -> None:
        """Wait until no document is being ingested, at most ``seconds``.

        Args:
            seconds: Maximum time.
        """
        end = time.monotonic() + seconds
        url = "/v1/knowledge-bases/default/documents"
        while time.monotonic() < end:
            if not any(
                self.client.get(url, params={"status": item, "limit": 1}).json()["items"] for item in UNFINISHED_STATES
            ):
                return
            time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class HostileInput:
    """Hostile input, and the number of times that it is sent at once."""

    name: str
    send: Callable[[AttackTarget, int], str]
    concurrency: int = 1


def _describe_reply(reply: httpx2.Response) -> str:
    if reply.status_code < 400:
        return str(reply.status_code)
    return f"{reply.status_code} {reply.json().get('type', '').rpartition(':')[2]}".strip()


def _build_pages_line(size: int) -> bytes:
    numbers = b"1,2,3,4,5,6," * (size // 12)
    return b'{"page":1,"width":1,"height":1,"lines":[' + numbers + b"1,2,3,4,5,6]}\n"


def import_long_title(target: AttackTarget, number: int) -> str:
    """Import an archive of 1.1 MB: a title of 900,000 characters, which 200 chunks repeat."""
    parts = target.archive.build_chunked_parts(200)
    return _describe_reply(
        target.import_archive(
            "small", target.archive.with_parts(name=f"t{number}", parts=parts, title="word " * 180_000)
        )
    )


def import_long_sections(target: AttackTarget, number: int) -> str:
    """Import an archive with section titles of 300 KB in each chunk."""
    chunks = edit_lines(
        target.archive.build_chunked_parts(200)["chunks.jsonl"],
        lambda chunk: {**chunk, "sections": ["s" * 100_000] * 3},
    )
    parts = {**target.archive.build_chunked_parts(200), "chunks.jsonl": chunks}
    return _describe_reply(target.import_archive("small", target.archive.with_parts(name=f"s{number}", parts=parts)))


def import_one_line(target: AttackTarget, number: int) -> str:
    """Import an archive of 120 MB with a single line in ``pages.jsonl``."""
    parts = {"pages.jsonl": _build_pages_line(LINE_BYTES)}
    return _describe_reply(target.import_archive("small", target.archive.with_parts(name=f"l{number}", parts=parts)))


def import_many_nodes(target: AttackTarget, number: int) -> str:
    """Import an archive with half a million nodes."""
    nodes = [b'{"kind":"document","level":0,"start":0,"end":%d}' % len(target.archive.parts["text.txt"])]
    nodes.extend(b'{"path":[%d],"kind":"paragraph","level":0,"start":0,"end":1}' % at for at in range(499_000))
    parts = {"nodes.jsonl": b"\n".join(nodes) + b"\n"}
    return _describe_reply(target.import_archive("small", target.archive.with_parts(name=f"n{number}", parts=parts)))


def import_large_text(target: AttackTarget, number: int) -> str:
    """Import an archive with a text of 30 million characters of four bytes each."""
    parts = {"text.txt": "𝐀".encode() * 30_000_000}
    return _describe_reply(target.import_archive("small", target.archive.with_parts(name=f"x{number}", parts=parts)))


def leave_import(target: AttackTarget, number: int) -> str:
    """Import an archive with 20,000 chunks, and close the connection after two seconds."""
    archive = target.archive.with_parts(name=f"g{number}", parts=target.archive.build_chunked_parts(20_000))
    with httpx2.Client(base_url=target.client.base_url, headers=target.client.headers, timeout=2) as client:
        try:
            client.post("/v1/knowledge-bases/small/import", content=archive, headers={"Content-Type": TAR_MEDIA_TYPE})
        except httpx2.TimeoutException:
            return "left"
    return "finished"


def export_giant(target: AttackTarget, _: int) -> str:
    """Export the document of 20,000 chunks."""
    target.get_giant_document()
    with target.client.stream("GET", "/v1/knowledge-bases/giant/export") as reply:
        if reply.status_code >= 400:
            reply.read()
            return _describe_reply(reply)
        for piece in reply.iter_bytes():
            del piece
    return str(reply.status_code)


def search_giant(target: AttackTarget, _: int) -> str:
    """Search for 500 results with their vectors and sections."""
    target.get_giant_document()
    body = {
        "query": "lorem ipsum",
        "top_k": 500,
        "return_vectors": True,
        "explain": True,
        "expand": "section",
    }
    return _describe_reply(target.client.post("/v1/knowledge-bases/giant/search", json=body))


def read_giant_tree(target: AttackTarget, _: int) -> str:
    """Return the whole tree of the document of 20,000 chunks."""
    return _describe_reply(target.client.get(f"/v1/knowledge-bases/giant/documents/{target.get_giant_document()}/tree"))


def upload_markdown_heading(target: AttackTarget, number: int) -> str:
    """Upload a Markdown file that consists of one heading."""
    return target.upload(f"heading{number}.md", b"# " + b"word%d " % number * (150_000 // 6))


def upload_nested_headings(target: AttackTarget, number: int) -> str:
    """Upload 60,000 small sections below five nested headings of 500 characters."""
    above = "\n\n".join("#" * level + " " + "word " * 99 for level in range(1, 6))
    return target.upload(f"nested{number}.md", (above + "\n\n###### a\n\nb" * 60_000).encode())


def upload_tiny_elements(target: AttackTarget, number: int) -> str:
    """Upload a web page with a million tiny elements."""
    return target.upload(f"tiny{number}.html", b"<h1>t</h1>" + b"<p>a" * 1_000_000)


def upload_deep_elements(target: AttackTarget, number: int) -> str:
    """Upload a web page with 200,000 nested elements."""
    return target.upload(f"deep{number}.html", b"<div>a" * 200_000)


def upload_wide_header(target: AttackTarget, number: int) -> str:
    """Upload a table with a header of 20 KB and 100,000 short rows."""
    header = ",".join(f"{'name ' * 1000}{at}" for at in range(4))
    return target.upload(f"wide{number}.csv", (header + "\n" + "a,b,c,d\n" * 100_000).encode())


def upload_ragged_table(target: AttackTarget, number: int) -> str:
    """Upload tables with one long row and 990 short rows each."""
    table = "<table><tr>" + "<td>a" * 1000 + "</tr>" + "<tr><td>b</tr>" * 990 + "</table>"
    return target.upload(f"ragged{number}.html", (table * 40).encode())


def upload_wide_cells(target: AttackTarget, number: int) -> str:
    """Upload a table with 60 long column names and 4,000 rows."""
    header = ",".join("column name " * 150 + str(at) for at in range(60))
    return target.upload(f"cells{number}.csv", (header + "\n" + (",".join("x" * 60) + "\n") * 4000).encode())


def upload_workbook_strings(target: AttackTarget, number: int) -> str:
    """Upload a workbook of 100 KB whose cells all refer to one long text."""
    rows = "".join(
        f'<row r="{row}">' + "".join(f'<c r="{col}{row}" t="s"><v>0</v></c>' for col in "ABCDEFGH") + "</row>"
        for row in range(1, 5001)
    )
    members = dict(build_workbook(rows))
    name = next((each for each in members if each.endswith("sharedStrings.xml")), "xl/sharedStrings.xml")
    strings = "<sst xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'><si><t>" + "long " * 6000
    members[name] = strings + "</t></si></sst>"
    return target.upload(f"strings{number}.xlsx", pack_zip(members))


def upload_zip_bomb(target: AttackTarget, number: int) -> str:
    """Upload an EPUB of 1 MB that unpacks to a gigabyte."""
    members = {**build_book(build_paragraph("text")), "OEBPS/more.xhtml": b"<p>" + b"a" * (1 << 30)}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.upload(f"bomb{number}.epub", file.getvalue())


def upload_pdf_title(target: AttackTarget, number: int) -> str:
    """Upload a PDF whose title has a million characters."""
    body = build_pdf("BT /F 12 Tf 10 10 Td (hello) Tj ET")
    body = body.replace(b"trailer", b"trailer", 1).replace(
        b"/Root", b"/Info << /Title (" + b"a " * 500_000 + b") >> /Root", 1
    )
    return target.upload(f"title{number}.pdf", body)


def upload_mail_attachments(target: AttackTarget, number: int) -> str:
    """Upload a mail with a subject of a megabyte and 5,000 attachments."""
    part = b"--x\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=a.txt\r\n\r\nhello\r\n"
    head = (
        b"Subject: "
        + b"word " * 200_000
        + b"\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n"
    )
    return target.upload(f"mail{number}.eml", head + part * 5000 + b"--x--\r\n")


def _add_document(target: AttackTarget, **document: object) -> str:
    body = json.dumps(document, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/json"}
    return target.wait_for_outcome(
        target.client.post("/v1/knowledge-bases/default/documents", content=body, headers=headers)
    )


def add_provided_chunks(target: AttackTarget, number: int) -> str:
    """Upload 5,000 chunks of one word, with a long title and metadata of 15 KB, which each chunk repeats."""
    vector = [1.0] + [0.0] * 383
    chunk = {"text": f"a{number}", "vector": vector, "metadata": {"n": 1}}
    metadata = {f"key{at}": "v" * 140 for at in range(100)}
    return _add_document(target, chunks=[chunk] * 5000, title="t" * 500, metadata=metadata)


def add_provided_sections(target: AttackTarget, number: int) -> str:
    """Upload one chunk of two megabytes with a vector and twenty section titles."""
    chunk = {"text": f"w{number} " * 600_000, "vector": [1.0] + [0.0] * 383, "section_titles": ["s " * 249] * 20}
    return _add_document(target, chunks=[chunk])


def add_large_metadata(target: AttackTarget, number: int) -> str:
    """Upload a text of 2 MB with metadata of 15 KB, which each chunk repeats."""
    metadata = {f"key{at}": "v" * 140 for at in range(100)}
    return _add_document(target, text=f"word{number} and more. " * 100_000, metadata=metadata)


def upload_many_parts(target: AttackTarget, _: int) -> str:
    """Upload a batch of 10,000 files."""
    files = [("file", (f"{at}.txt", b"hello")) for at in range(10_000)]
    return _describe_reply(target.client.post("/v1/knowledge-bases/default/documents/batch", files=files))


def send_nested_json(target: AttackTarget, _: int) -> str:
    """Send a body of 16 MB of nested lists."""
    return _send_json(target, "/v1/search", b'{"query":"a","filter":' + b"[" * 8_000_000 + b"]" * 8_000_000 + b"}")


def send_many_names(target: AttackTarget, _: int) -> str:
    """Send a body with a million names."""
    names = b",".join(b'"n%d":0' % at for at in range(1_000_000))
    return _send_json(target, "/v1/search", b'{"query":"a","filter":{' + names + b"}}")


def _send_json(target: AttackTarget, url: str, body: bytes) -> str:
    return _describe_reply(target.client.post(url, content=body, headers={"Content-Type": "application/json"}))


def preview_tiny_elements(target: AttackTarget, _: int) -> str:
    """Preview a web page with a million tiny elements."""
    files = {"file": ("tiny.html", b"<h1>t</h1>" + b"<p>a" * 1_000_000)}
    return _describe_reply(target.client.post("/v1/preview", files=files))


def preview_large_text(target: AttackTarget, _: int) -> str:
    """Preview a text of 12 million characters, half of them four bytes long."""
    return _describe_reply(target.client.post("/v1/preview", files={"file": ("large.txt", "𝐀 ".encode() * 6_000_000)}))


def _list_inputs() -> Iterator[HostileInput]:
    yield HostileInput("archive: title of 900,000 characters", import_long_title)
    yield HostileInput("archive: section titles of 100 KB", import_long_sections)
    yield HostileInput("archive: one line of 120 MB, twice", import_one_line, 2)
    yield HostileInput("archive: 499,000 nodes", import_many_nodes, 2)
    yield HostileInput("archive: 30,000,000 wide characters", import_large_text, 2)
    yield HostileInput("import of 20,000 chunks, caller leaves", leave_import, 2)
    yield HostileInput("export of 20,000 chunks, 12 at once", export_giant, 12)
    yield HostileInput("search: top_k 500, vectors, sections, 8x", search_giant, 8)
    yield HostileInput("tree of 20,000 nodes, 8 at once", read_giant_tree, 8)
    yield HostileInput("Markdown: heading of 150 KB", upload_markdown_heading)
    yield HostileInput("Markdown: 60,000 sections, long titles", upload_nested_headings)
    yield HostileInput("HTML: a million elements", upload_tiny_elements)
    yield HostileInput("HTML: 200,000 levels", upload_deep_elements)
    yield HostileInput("CSV: header of 20 KB", upload_wide_header)
    yield HostileInput("CSV: 60 names of 2 KB", upload_wide_cells)
    yield HostileInput("HTML: ragged tables", upload_ragged_table)
    yield HostileInput("XLSX: one shared string of 30 KB", upload_workbook_strings)
    yield HostileInput("EPUB: a gigabyte in a megabyte", upload_zip_bomb)
    yield HostileInput("PDF: title of a megabyte", upload_pdf_title)
    yield HostileInput("mail: 5,000 attachments", upload_mail_attachments)
    yield HostileInput("ready chunks: 5,000 with metadata", add_provided_chunks)
    yield HostileInput("ready chunk: 2 MB, 20 titles", add_provided_sections)
    yield HostileInput("text: 2 MB with metadata of 15 KB", add_large_metadata)
    yield HostileInput("batch of 10,000 parts", upload_many_parts)
    yield HostileInput("JSON: 8,000,000 levels, 4 at once", send_nested_json, 4)
    yield HostileInput("JSON: 1,000,000 names, 4 at once", send_many_names, 4)
    yield HostileInput("preview: a million elements, twice", preview_tiny_elements, 2)
    yield HostileInput("preview: wide characters, twice", preview_large_text, 2)


INPUTS = tuple(_list_inputs())
