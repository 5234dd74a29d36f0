"""Term weights of a chunk as a database parameter."""

import struct

from pgvector import SparseVector

from app.lexical.weights import DIMENSIONS, LexicalEntry


class TermVector(SparseVector):
    """Term weights of a chunk as a database parameter. Packing needs no sorting: ``LexicalEntry`` sorts the terms."""

    def __init__(self, entry: LexicalEntry) -> None:
        self._entry = entry

    def to_binary(self) -> bytes:
        """Pack the binary format of a sparse vector that pgvector receives."""
        entry = self._entry
        count = len(entry.term_ids)
        return struct.pack(f">iii{count}i{count}f", DIMENSIONS, count, 0, *entry.term_ids, *entry.weights)
