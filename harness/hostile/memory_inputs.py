"""Small inputs that would take much memory where nothing limits them, for every entry of the service."""

import io
import json
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import httpx2

from harness.hostile.exports import Exported, edited
from harness.hostile.pdfs import pdf
from harness.hostile.zip_packages import book, packed, paragraph, workbook

TAR = "application/x-tar"
GIANT_CHUNKS = 20_000
STATES = ("queued", "parsing", "chunking", "embedding")
LINE_BYTES = 120 * 1024 * 1024


@dataclass(slots=True)
class Target:
    """A running service with a small document, an archive of it, and one document of many chunks."""

    client: httpx2.Client
    archive: Exported
    giants: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def prepare(cls, client: httpx2.Client) -> "Target":
        """Fill the service."""
        client.timeout = 200
        text = "The quarterly report is due on the first of May.\n\nHolidays are 30 days."
        client.post("/v1/knowledge-bases", json={"name": "small"}).raise_for_status()
        client.post("/v1/knowledge-bases/small/documents?wait=60", json={"text": text}).raise_for_status()
        archive = Exported.read(client.get("/v1/knowledge-bases/small/export").raise_for_status().content)
        return cls(client, archive)

    def giant(self) -> str:
        """Return the id of the document of many chunks in the knowledge base ``giant``, imported at the first call."""
        with self.lock:
            if not self.giants:
                self.client.post("/v1/knowledge-bases", json={"name": "giant"}).raise_for_status()
                parts = self.archive.chunked(GIANT_CHUNKS)
                self.take("giant", self.archive.with_parts(name="giant", parts=parts)).raise_for_status()
                items = self.client.get("/v1/knowledge-bases/giant/documents").json()["items"]
                self.giants.append(items[0]["id"])
        return self.giants[0]

    def take(self, kb: str, archive: Iterable[bytes]) -> httpx2.Response:
        """Import an archive."""
        return self.client.post(f"/v1/knowledge-bases/{kb}/import", content=archive, headers={"Content-Type": TAR})

    def upload(self, name: str, body: bytes) -> str:
        """Upload a file, wait for what becomes of it, and return that."""
        reply = self.client.post("/v1/knowledge-bases/default/documents", files={"file": (name, body)})
        if reply.status_code >= 300:
            return _code(reply)
        return self.outcome(reply)

    def outcome(self, reply: httpx2.Response) -> str:
        """Return what becomes of a document that was taken in."""
        if reply.status_code >= 300:
            return _code(reply)
        url = f"/v1/knowledge-bases/default/documents/{reply.json()['id']}"
        for _ in range(2000):
            found = self.client.get(url).json()
            if found["status"] not in STATES:
                break
            time.sleep(0.1)
        return f"{found['status']} {(found.get('error') or {}).get('code', '')}".strip()

    def wait_until_idle(self, seconds: float) -> None:
        """Wait until no document is being ingested."""
        end = time.monotonic() + seconds
        url = "/v1/knowledge-bases/default/documents"
        while time.monotonic() < end:
            if not any(self.client.get(url, params={"status": one, "limit": 1}).json()["items"] for one in STATES):
                return
            time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class Input:
    """One hostile input, and how often it is sent at a time."""

    name: str
    send: Callable[[Target, int], str]
    at_once: int = 1


def _code(reply: httpx2.Response) -> str:
    if reply.status_code < 400:
        return str(reply.status_code)
    return f"{reply.status_code} {reply.json().get('type', '').rpartition(':')[2]}".strip()


def _pages_line(size: int) -> bytes:
    numbers = b"1,2,3,4,5,6," * (size // 12)
    return b'{"page":1,"width":1,"height":1,"lines":[' + numbers + b"1,2,3,4,5,6]}\n"


def archive_with_long_title(target: Target, number: int) -> str:
    """An archive of 1.1 MB: a title of 900,000 characters, which 200 chunks repeat."""
    parts = target.archive.chunked(200)
    return _code(
        target.take("small", target.archive.with_parts(name=f"t{number}", parts=parts, title="word " * 180_000))
    )


def archive_with_long_sections(target: Target, number: int) -> str:
    """Section titles of a megabyte in a chunk."""
    chunks = edited(
        target.archive.chunked(200)["chunks.jsonl"], lambda chunk: {**chunk, "sections": ["s" * 100_000] * 3}
    )
    parts = {**target.archive.chunked(200), "chunks.jsonl": chunks}
    return _code(target.take("small", target.archive.with_parts(name=f"s{number}", parts=parts)))


def archive_with_one_line(target: Target, number: int) -> str:
    """An archive of 120 MB with a single line in ``pages.jsonl``."""
    parts = {"pages.jsonl": _pages_line(LINE_BYTES)}
    return _code(target.take("small", target.archive.with_parts(name=f"l{number}", parts=parts)))


def archive_with_many_nodes(target: Target, number: int) -> str:
    """Half a million nodes."""
    nodes = [b'{"kind":"document","level":0,"start":0,"end":%d}' % len(target.archive.parts["text.txt"])]
    nodes.extend(b'{"path":[%d],"kind":"paragraph","level":0,"start":0,"end":1}' % at for at in range(499_000))
    parts = {"nodes.jsonl": b"\n".join(nodes) + b"\n"}
    return _code(target.take("small", target.archive.with_parts(name=f"n{number}", parts=parts)))


def archive_with_large_text(target: Target, number: int) -> str:
    """A text of 30 million characters that take four bytes each."""
    parts = {"text.txt": "𝐀".encode() * 30_000_000}
    return _code(target.take("small", target.archive.with_parts(name=f"x{number}", parts=parts)))


def caller_leaves_an_import(target: Target, number: int) -> str:
    """Three hundred chunks of long words, and a caller who does not wait for them."""
    archive = target.archive.with_parts(name=f"g{number}", parts=target.archive.chunked(20_000))
    with httpx2.Client(base_url=target.client.base_url, headers=target.client.headers, timeout=2) as client:
        try:
            client.post("/v1/knowledge-bases/small/import", content=archive, headers={"Content-Type": TAR})
        except httpx2.TimeoutException:
            return "left"
    return "finished"


def exports(target: Target, _: int) -> str:
    """Exports of one document of 20,000 chunks, all at a time."""
    target.giant()
    with target.client.stream("GET", "/v1/knowledge-bases/giant/export") as reply:
        if reply.status_code >= 400:
            reply.read()
            return _code(reply)
        for piece in reply.iter_bytes():
            del piece
    return str(reply.status_code)


def searches(target: Target, _: int) -> str:
    """Searches for 500 results with their vectors and sections."""
    target.giant()
    body = {
        "query": "lorem ipsum",
        "top_k": 500,
        "return_vectors": True,
        "explain": True,
        "expand": "section",
    }
    return _code(target.client.post("/v1/knowledge-bases/giant/search", json=body))


def trees(target: Target, _: int) -> str:
    """The whole tree of the document of 20,000 chunks."""
    return _code(target.client.get(f"/v1/knowledge-bases/giant/documents/{target.giant()}/tree"))


def markdown_heading(target: Target, number: int) -> str:
    """A Markdown file that is one heading."""
    return target.upload(f"heading{number}.md", b"# " + b"word%d " % number * (150_000 // 6))


def nested_headings(target: Target, number: int) -> str:
    """Five nested headings of 500 characters above very many small sections."""
    above = "\n\n".join("#" * level + " " + "word " * 99 for level in range(1, 6))
    return target.upload(f"nested{number}.md", (above + "\n\n###### a\n\nb" * 60_000).encode())


def tiny_elements(target: Target, number: int) -> str:
    """A page with a million tiny elements."""
    return target.upload(f"tiny{number}.html", b"<h1>t</h1>" + b"<p>a" * 1_000_000)


def deep_elements(target: Target, number: int) -> str:
    """A page that nests two hundred thousand levels."""
    return target.upload(f"deep{number}.html", b"<div>a" * 200_000)


def wide_header(target: Target, number: int) -> str:
    """A table whose header is 20 KB long, above 100,000 short rows."""
    header = ",".join(f"{'name ' * 1000}{at}" for at in range(4))
    return target.upload(f"wide{number}.csv", (header + "\n" + "a,b,c,d\n" * 100_000).encode())


def ragged_table(target: Target, number: int) -> str:
    """Tables with one long row beside very many short ones."""
    table = "<table><tr>" + "<td>a" * 1000 + "</tr>" + "<tr><td>b</tr>" * 990 + "</table>"
    return target.upload(f"ragged{number}.html", (table * 40).encode())


def wide_cells(target: Target, number: int) -> str:
    """Rows of 60 columns with long names, one record each."""
    header = ",".join("column name " * 150 + str(at) for at in range(60))
    return target.upload(f"cells{number}.csv", (header + "\n" + (",".join("x" * 60) + "\n") * 4000).encode())


def workbook_strings(target: Target, number: int) -> str:
    """A workbook of 100 KB whose cells all name one long text."""
    rows = "".join(
        f'<row r="{row}">' + "".join(f'<c r="{col}{row}" t="s"><v>0</v></c>' for col in "ABCDEFGH") + "</row>"
        for row in range(1, 5001)
    )
    members = dict(workbook(rows))
    name = next((each for each in members if each.endswith("sharedStrings.xml")), "xl/sharedStrings.xml")
    strings = "<sst xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'><si><t>" + "long " * 6000
    members[name] = strings + "</t></si></sst>"
    return target.upload(f"strings{number}.xlsx", packed(members))


def zip_bomb(target: Target, number: int) -> str:
    """A book of 1 MB that unpacks to a gigabyte."""
    members = {**book(paragraph("text")), "OEBPS/more.xhtml": b"<p>" + b"a" * (1 << 30)}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.upload(f"bomb{number}.epub", file.getvalue())


def pdf_title(target: Target, number: int) -> str:
    """A PDF whose title has a million characters."""
    body = pdf("BT /F 12 Tf 10 10 Td (hello) Tj ET")
    body = body.replace(b"trailer", b"trailer", 1).replace(
        b"/Root", b"/Info << /Title (" + b"a " * 500_000 + b") >> /Root", 1
    )
    return target.upload(f"title{number}.pdf", body)


def mail_attachments(target: Target, number: int) -> str:
    """A mail with a subject of a megabyte and 5,000 attachments."""
    part = b"--x\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=a.txt\r\n\r\nhello\r\n"
    head = (
        b"Subject: "
        + b"word " * 200_000
        + b"\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n"
    )
    return target.upload(f"mail{number}.eml", head + part * 5000 + b"--x--\r\n")


def _chunks(target: Target, **document: object) -> str:
    body = json.dumps(document, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/json"}
    return target.outcome(target.client.post("/v1/knowledge-bases/default/documents", content=body, headers=headers))


def given_chunks(target: Target, number: int) -> str:
    """Ready chunks of one character, below a title, and metadata of 15 KB that each of them has."""
    vector = [1.0] + [0.0] * 383
    chunk = {"text": f"a{number}", "vector": vector, "metadata": {"n": 1}}
    metadata = {f"key{at}": "v" * 140 for at in range(100)}
    return _chunks(target, chunks=[chunk] * 5000, title="t" * 500, metadata=metadata)


def given_sections(target: Target, number: int) -> str:
    """One ready chunk of two megabytes with a vector and twenty section titles."""
    chunk = {"text": f"w{number} " * 600_000, "vector": [1.0] + [0.0] * 383, "section_titles": ["s " * 249] * 20}
    return _chunks(target, chunks=[chunk])


def large_metadata(target: Target, number: int) -> str:
    """A text of 2 MB with metadata of 15 KB, which every chunk repeats."""
    metadata = {f"key{at}": "v" * 140 for at in range(100)}
    return _chunks(target, text=f"word{number} and more. " * 100_000, metadata=metadata)


def many_parts(target: Target, _: int) -> str:
    """A batch of 10,000 parts."""
    files = [("file", (f"{at}.txt", b"hello")) for at in range(10_000)]
    return _code(target.client.post("/v1/knowledge-bases/default/documents/batch", files=files))


def nested_json(target: Target, _: int) -> str:
    """A body of 16 MB of nested lists."""
    return _json(target, "/v1/search", b'{"query":"a","filter":' + b"[" * 8_000_000 + b"]" * 8_000_000 + b"}")


def many_names(target: Target, _: int) -> str:
    """A body of 16 MB of names."""
    names = b",".join(b'"n%d":0' % at for at in range(1_000_000))
    return _json(target, "/v1/search", b'{"query":"a","filter":{' + names + b"}}")


def _json(target: Target, url: str, body: bytes) -> str:
    return _code(target.client.post(url, content=body, headers={"Content-Type": "application/json"}))


def preview_of_tiny_elements(target: Target, _: int) -> str:
    """The preview of a page with a million tiny elements."""
    files = {"file": ("tiny.html", b"<h1>t</h1>" + b"<p>a" * 1_000_000)}
    return _code(target.client.post("/v1/preview", files=files))


def preview_of_large_text(target: Target, _: int) -> str:
    """The preview of a text of 12 million characters that take four bytes each."""
    return _code(target.client.post("/v1/preview", files={"file": ("large.txt", "𝐀 ".encode() * 6_000_000)}))


def _inputs() -> Iterator[Input]:
    yield Input("archive: title of 900,000 characters", archive_with_long_title)
    yield Input("archive: section titles of 100 KB", archive_with_long_sections)
    yield Input("archive: one line of 120 MB, twice", archive_with_one_line, 2)
    yield Input("archive: 499,000 nodes", archive_with_many_nodes, 2)
    yield Input("archive: 30,000,000 wide characters", archive_with_large_text, 2)
    yield Input("import of 20,000 chunks, caller leaves", caller_leaves_an_import, 2)
    yield Input("export of 20,000 chunks, 12 at once", exports, 12)
    yield Input("search: top_k 500, vectors, sections, 8x", searches, 8)
    yield Input("tree of 20,000 nodes, 8 at once", trees, 8)
    yield Input("Markdown: heading of 150 KB", markdown_heading)
    yield Input("Markdown: 60,000 sections, long titles", nested_headings)
    yield Input("HTML: a million elements", tiny_elements)
    yield Input("HTML: 200,000 levels", deep_elements)
    yield Input("CSV: header of 20 KB", wide_header)
    yield Input("CSV: 60 names of 2 KB", wide_cells)
    yield Input("HTML: ragged tables", ragged_table)
    yield Input("XLSX: one shared string of 30 KB", workbook_strings)
    yield Input("EPUB: a gigabyte in a megabyte", zip_bomb)
    yield Input("PDF: title of a megabyte", pdf_title)
    yield Input("mail: 5,000 attachments", mail_attachments)
    yield Input("ready chunks: 5,000 with metadata", given_chunks)
    yield Input("ready chunk: 2 MB, 20 titles", given_sections)
    yield Input("text: 2 MB with metadata of 15 KB", large_metadata)
    yield Input("batch of 10,000 parts", many_parts)
    yield Input("JSON: 8,000,000 levels, 4 at once", nested_json, 4)
    yield Input("JSON: 1,000,000 names, 4 at once", many_names, 4)
    yield Input("preview: a million elements, twice", preview_of_tiny_elements, 2)
    yield Input("preview: wide characters, twice", preview_of_large_text, 2)


INPUTS = tuple(_inputs())
