"""Reserved strategy name for retrieval along a graph of entities; not implemented, hybrid is used instead."""

from app.retrieval.strategies import hybrid
from app.retrieval.strategies.strategy import SearchContext, Strategy
from app.retrieval.types import Hit
from app.warnings import ServiceWarning, WarningCode

STRATEGY_NOT_IMPLEMENTED = ServiceWarning(
    WarningCode.STRATEGY_NOT_IMPLEMENTED, "graph_rag is not implemented, so hybrid was used instead."
)


async def run(context: SearchContext, options: hybrid.HybridOptions) -> list[Hit]:
    """Search with the strategy hybrid, and add a notice."""
    context.search_run.add_notice(STRATEGY_NOT_IMPLEMENTED)
    return await hybrid.run(context, options)


STRATEGY = Strategy("graph_rag", "Not implemented: uses hybrid, with a warning.", hybrid.HybridOptions, run)
