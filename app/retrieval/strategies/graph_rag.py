"""The name of retrieval along a graph of entities, which is answered as hybrid until there is one."""

from app.retrieval.strategies import hybrid
from app.retrieval.strategies.strategy import SearchContext, Strategy
from app.retrieval.types import Hit


async def run(context: SearchContext, options: hybrid.HybridOptions) -> list[Hit]:
    """As hybrid, and the caller is told."""
    context.search_run.add_notice("graph_rag is not there yet: it was searched as hybrid.")
    return await hybrid.run(context, options)


STRATEGY = Strategy("graph_rag", "Not there yet: as hybrid, with a warning.", hybrid.HybridOptions, run)
