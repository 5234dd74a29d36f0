"""Archives of knowledge bases for tests: valid ones, or ones with faults."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.transfer.tar import END_MARKER, build_member

# Identity of a knowledge base with default settings and the embedded model.
DEFAULT_IDENTITY = {
    "model": "bge-small-en-v1.5", "dimensions": 384, "precision": "int8", "query_prefix": "", "document_prefix": "",
    "analyzer": "english-v1", "k1": 1.2, "b": 0.75,
}  # fmt: skip


@dataclass
class ArchiveDocument:
    """Document with one paragraph for each chunk. Tests may change ``parts`` and ``record`` to add faults.

    Attributes:
        texts: Texts of the chunks.
        record_fields: Further fields of the record.
    """

    texts: Sequence[str]
    record_fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        text = "\n\n".join(self.texts)
        starts = np.cumsum([0, *(len(item) + 2 for item in self.texts)]).tolist()
        spans = [(start, start + len(item)) for start, item in zip(starts, self.texts, strict=False)]
        root = {"kind": "document", "level": 0, "start": 0, "end": len(text)}
        leaves = [
            {"path": [n], "kind": "paragraph", "level": 0, "start": start, "end": end, "block": "paragraph"}
            for n, (start, end) in enumerate(spans)
        ]
        chunks = [{"start": start, "end": end, "tokens": 5, "path": [n]} for n, (start, end) in enumerate(spans)]
        vectors = np.zeros((len(spans), 384), "<f2")
        vectors[:, 0] = 1
        self.parts: dict[str, bytes] = {
            "text.txt": text.encode(),
            "nodes.jsonl": format_json_lines([root, *leaves]),
            "pages.jsonl": b"",
            "chunks.jsonl": format_json_lines(chunks),
            "vectors.f16": vectors.tobytes(),
            "original": text.encode(),
        }
        self.record: dict[str, Any] = {
            "source": "a.txt", "media_type": "text/plain", "created_at": "2026-01-02T03:04:05Z", **self.record_fields
        }  # fmt: skip

    def list_members(self, folder: str) -> dict[str, bytes]:
        """Return the members of the document in an archive.

        Args:
            folder: Folder of the document in the archive.

        Returns:
            Contents by name. The record lists sizes and hashes of the current ``parts``.
        """
        parts = [
            {"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in self.parts.items()
        ]
        record = json.dumps({"parts": parts, **self.record}).encode()
        return {f"{folder}/{name}": content for name, content in {"document.json": record, **self.parts}.items()}


def format_json_lines(rows: Sequence[Any]) -> bytes:
    """Format each row as a line of JSON."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def build_manifest(**changes: Any) -> bytes:
    """Build the manifest of an archive. ``changes`` replaces fields."""
    created = {
        "format": "carrel-knowledge-base", "version": 1, "carrel": "0", "name": "made", "settings": {},
        "identity": DEFAULT_IDENTITY, "average_length": 20.0, "exported_at": "2026-01-02T03:04:05Z", **changes,
    }  # fmt: skip
    return json.dumps(created).encode()


def build_archive(*documents: ArchiveDocument, head: bytes | None = None) -> bytes:
    """Build an archive. ``head`` replaces the manifest."""
    members = {"manifest.json": build_manifest() if head is None else head}
    for number, document in enumerate(documents, 1):
        members |= document.list_members(f"documents/{number:07}")
    return build_tar(members)


def build_tar(members: Mapping[str, bytes]) -> bytes:
    """Build a tar file from contents by name."""
    return b"".join(build_member(name, content) for name, content in members.items()) + END_MARKER
