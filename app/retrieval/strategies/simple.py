"""Dense retrieval: nearest by cosine."""

from app.retrieval.lanes import best_of
from app.retrieval.strategies.context import NoOptions, SearchContext, Strategy
from app.retrieval.types import Hit


async def run(context: SearchContext, _options: NoOptions) -> list[Hit]:
    """``score`` is the cosine."""
    return await context.find(lambda found: best_of(found.dense), lexical=False)


STRATEGY = Strategy("simple", "Dense: nearest embeddings by cosine.", NoOptions, run)
