"""Hostile archives: the export of a knowledge base with one document, with replaced parts."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PIECE_BYTES = 1 << 20
Parts = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class ExportedArchive:
    """Archive with one document: its manifest, its record, and its parts by name."""

    manifest: bytes
    record: Mapping[str, Any]
    parts: Mapping[str, bytes]

    @classmethod
    def from_bytes(cls, archive: bytes) -> "ExportedArchive":
        """Read the archive of a knowledge base with one document.

        Args:
            archive: Bytes of the archive.
        """
        files: Parts = {}
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                file = tar.extractfile(member)
                files[member.name] = b"" if file is None else file.read()
        folder = "documents/0000001/"
        record = json.loads(files[f"{folder}document.json"])
        parts = {part["name"]: files[folder + part["name"]] for part in record["parts"]}
        return cls(files["manifest.json"], record, parts)

    def with_parts(self, *, name: str, parts: Mapping[str, bytes] | None = None, **record: Any) -> Iterator[bytes]:
        """Yield the archive with another original, other parts and other fields.

        Args:
            name: Name and content of the original.
            parts: Parts to replace, by name.
            record: Fields of the record to replace.
        """
        files = {**self.parts, **(parts or {}), "original": name.encode()}
        reported = [
            {"name": each, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
            for each, body in files.items()
        ]
        about = json.dumps({**self.record, **record, "parts": reported, "source": name}).encode()
        yield from _stream_member("manifest.json", self.manifest)
        yield from _stream_member("documents/0000001/document.json", about)
        for each, body in files.items():
            yield from _stream_member(f"documents/0000001/{each}", body)
        yield bytes(1024)

    def build_chunked_parts(self, count: int, *, characters: int = 200) -> Parts:
        """Build parts with a text of many chunks, one paragraph each.

        Args:
            count: Number of chunks.
            characters: Approximate length of a chunk.

        Returns:
            The parts by name.
        """
        words = [f"w{number:05} " + "lorem ipsum dolor sit amet " * (characters // 27) for number in range(count)]
        starts, position = [], 0
        for word in words:
            starts.append(position)
            position += len(word) + 2
        text = "\n\n".join(words)
        nodes = [{"kind": "document", "level": 0, "start": 0, "end": len(text)}]
        chunks = []
        for number, (start, word) in enumerate(zip(starts, words, strict=True)):
            place = {"path": [number], "start": start, "end": start + len(word)}
            nodes.append({**place, "kind": "paragraph", "level": 0, "block": "paragraph"})
            chunks.append({**place, "tokens": len(word) // 4})
        vector = self.parts["vectors.f16"][: len(self.parts["vectors.f16"]) // self.parts["chunks.jsonl"].count(b"\n")]
        return {
            "text.txt": text.encode(),
            "nodes.jsonl": _format_lines(nodes),
            "pages.jsonl": b"",
            "chunks.jsonl": _format_lines(chunks),
            "vectors.f16": vector * count,
        }


def edit_lines(lines: bytes, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """Apply ``edit`` to each JSON line, and return the new lines."""
    return _format_lines([edit(json.loads(line)) for line in lines.splitlines()])


def _format_lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)


def _stream_member(name: str, body: bytes) -> Iterator[bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(body)
    yield info.tobuf(tarfile.USTAR_FORMAT)
    for start in range(0, len(body), PIECE_BYTES):
        yield body[start : start + PIECE_BYTES]
    yield bytes(-len(body) % 512)
