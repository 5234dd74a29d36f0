"""Interface for strategy plugins: the state of a search, hits, the built-in strategies, and fusion.

Importing this module imports the retrieval code of the service, including the database driver.

Type aliases:
    ChunkKey: Identifier of a chunk in a ranking, as bytes.
    NamedTransformer: Name of a transformer, or a pair of its name and its options.
    RankedKeys: Pairs of a ``ChunkKey`` and a score, best first.
"""

from app.retrieval.fusion.rank_fusion import RankedList, fuse_rrf, fuse_weighted, sort_best_first
from app.retrieval.hit_parts import HitChunk, HitDocument
from app.retrieval.retrievers.ranking import RankedKeys, RetrieverResults, merge_by_best_score
from app.retrieval.search_run import SearchRun
from app.retrieval.strategies.dense import run as run_dense
from app.retrieval.strategies.hybrid import HybridOptions
from app.retrieval.strategies.hybrid import fuse as fuse_hybrid
from app.retrieval.strategies.hybrid import run as run_hybrid
from app.retrieval.strategies.lexical import run as run_lexical
from app.retrieval.strategies.strategy import NoStrategyOptions, SearchContext, Strategy
from app.retrieval.types import (
    ChunkKey,
    Hit,
    NamedTransformer,
    Query,
    Scores,
    SearchUnavailable,
)
from app.warnings import ServiceWarning

__all__ = [
    "ChunkKey",
    "Hit",
    "HitChunk",
    "HitDocument",
    "HybridOptions",
    "NamedTransformer",
    "NoStrategyOptions",
    "Query",
    "RankedKeys",
    "RankedList",
    "RetrieverResults",
    "Scores",
    "SearchContext",
    "SearchRun",
    "SearchUnavailable",
    "ServiceWarning",
    "Strategy",
    "fuse_hybrid",
    "fuse_rrf",
    "fuse_weighted",
    "merge_by_best_score",
    "run_dense",
    "run_hybrid",
    "run_lexical",
    "sort_best_first",
]
