"""The name of retrieval along a graph of entities, which is answered as hybrid until there is one."""

from app.retrieval.strategies import hybrid
from app.retrieval.strategies.strategy import SearchContext, Strategy
from app.retrieval.types import Hit
from app.warnings import ServiceWarning, WarningCode

STRATEGY_NOT_IMPLEMENTED = ServiceWarning(
    WarningCode.STRATEGY_NOT_IMPLEMENTED, "graph_rag is not there yet: it was searched as hybrid."
)


async def run(context: SearchContext, options: hybrid.HybridOptions) -> list[Hit]:
    """As hybrid, and the caller is told."""
    context.search_run.add_notice(STRATEGY_NOT_IMPLEMENTED)
    return await hybrid.run(context, options)


STRATEGY = Strategy("graph_rag", "Not there yet: as hybrid, with a warning.", hybrid.HybridOptions, run)
