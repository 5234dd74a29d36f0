"""Retrieval along a graph of names: hybrid, and chunks that share names with the question or with the best hits."""

from pydantic import BaseModel, Field, field_validator

from app.errors import InvalidInputError
from app.filters.values import check_text
from app.graph.serializers import DEFAULT_SERIALIZER, load_serializers
from app.retrieval.graph_walk.subgraph import describe_walk
from app.retrieval.graph_walk.types import SubgraphContent, WalkIndex, WalkSettings
from app.retrieval.graph_walk.walker import GraphWalker
from app.retrieval.strategies import hybrid
from app.retrieval.strategies.strategy import SearchContext, SearchTarget, Strategy
from app.retrieval.types import Hit

_HYBRID = hybrid.HybridOptions()


class GraphRagOptions(BaseModel, extra="forbid"):
    """Options of the walk, and its weight against the hybrid search."""

    max_hops: int = Field(
        2, ge=1, le=3, description="Number of steps of the walk. 2 leads from a hit to a name, and to other chunks."
    )
    seeds: int = Field(3, ge=0, le=20, description="Number of best hits of the hybrid search where the walk starts.")
    query_weight: float = Field(
        0.3, ge=0, le=1, description="Share of the start that the names in the question have; the hits have the rest."
    )
    damping: float = Field(
        0.7, ge=0, le=1, description="Share of the weight that each step moves; the rest returns to the start."
    )
    graph_weight: float = Field(
        0.8, ge=0, le=1, description="Weight of the walk in the score; hybrid has the rest. 1 is the walk alone."
    )
    keep_first: int = Field(1, ge=0, le=20, description="Number of first hits of the hybrid search that stay first.")
    relation_filter: list[str] | None = Field(
        None,
        max_length=50,
        description="Predicates: the walk then only uses names that such a relation of the chunk joins. Null for all.",
    )
    max_entity_share: float = Field(
        0.02,
        gt=0,
        le=1,
        description="Maximum share of the chunks that may have a name; more frequent names are ignored.",
    )
    fuse_with_vectors: bool = Field(
        True, description="Whether hits of the hybrid search that the walk does not reach are results too."
    )
    subgraph: SubgraphContent = Field(
        "none",
        description="`entities`: the response has the names and paths of the results. `text`: also one text "
        "of them for a model, which counts as a result.",
    )
    serializer: str = Field(DEFAULT_SERIALIZER, description="Serializer of this text: `text`, `json` or of a plugin.")

    @field_validator("serializer")
    @classmethod
    def _check_serializer(cls, value: str) -> str:
        if value not in load_serializers():
            raise ValueError(f"no such serializer; known are {', '.join(sorted(load_serializers()))}")
        return value

    @field_validator("relation_filter")
    @classmethod
    def _check_relation_filter(cls, value: list[str] | None) -> list[str] | None:
        for predicate in value or ():
            try:
                check_text(predicate, loc=())
            except InvalidInputError as exc:
                raise ValueError(exc.message) from None
        return value

    def to_settings(self) -> WalkSettings:
        """Convert the options to the settings of a walk."""
        return WalkSettings(**self.model_dump())


async def run(context: SearchContext, options: GraphRagOptions) -> list[Hit]:
    """Search with hybrid, walk in the graph, and rank the chunks of both.

    Args:
        context: The search.
        options: Options of the walk.

    Returns:
        The best hits, at most ``context.retriever.top_k``, best first.
    """
    questions = [query.text for query in context.queries if query.text and not query.is_extra]
    indexes = [_to_walk_index(target) for target in context.targets]
    walker = GraphWalker(options.to_settings(), context.search_run, indexes, questions)
    hits = await context.find(lambda results: hybrid.fuse(results, _HYBRID, context.combine), refiner=walker)
    return await describe_walk(context.retriever, walker, hits)


def _to_walk_index(target: SearchTarget) -> WalkIndex:
    kb = target.kb
    return WalkIndex(
        kb.row.tenant_id,
        kb.row.id,
        kb.display_name,
        kb.index.id,
        target.scopes,
        target.filter,
        target.is_user_restricted,
    )


STRATEGY = Strategy(
    "graph_rag",
    "Hybrid, and chunks that share names with the question or with the best hits.",
    GraphRagOptions,
    run,
)
