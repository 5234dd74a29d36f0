"""Interface for chunker plugins: the document tree, the specification of a chunker, and helpers that pack text.

Type aliases:
    TokenCounter: A function that takes texts and returns the number of tokens of each.
"""

from app.ingestion.chunkers.spec import (
    ChunkerOutput,
    ChunkerSpec,
    ChunkSizes,
    ChunkTools,
    NoChunkerOptions,
    TokenCounter,
)
from app.ingestion.chunkers.toolkit.chunk_validation import validate_chunks
from app.ingestion.chunkers.toolkit.drafts import build_drafts, collect_leaves
from app.ingestion.chunkers.toolkit.packer import pack_pieces, pack_regions
from app.ingestion.chunkers.toolkit.regions import find_section_regions, isolate_records
from app.ingestion.chunkers.toolkit.splitter import Boundary, Piece, group_by_sentence, split_regions
from app.ingestion.chunkers.toolkit.topics import pack_topics
from app.ingestion.types import (
    BlockKind,
    ChunkDraft,
    ChunkerFailed,
    DocumentTree,
    IngestionError,
    LineLayout,
    NodeKind,
    TreeNode,
)

__all__ = [
    "BlockKind",
    "Boundary",
    "ChunkDraft",
    "ChunkSizes",
    "ChunkTools",
    "ChunkerFailed",
    "ChunkerOutput",
    "ChunkerSpec",
    "DocumentTree",
    "IngestionError",
    "LineLayout",
    "NoChunkerOptions",
    "NodeKind",
    "Piece",
    "TokenCounter",
    "TreeNode",
    "build_drafts",
    "collect_leaves",
    "find_section_regions",
    "group_by_sentence",
    "isolate_records",
    "pack_pieces",
    "pack_regions",
    "pack_topics",
    "split_regions",
    "validate_chunks",
]
