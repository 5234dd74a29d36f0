"""Dense retrieval: nearest by cosine."""

from app.retrieval.fusion import Lane, fuse_weighted
from app.retrieval.lanes import LaneResults, Ranked, best_of
from app.retrieval.strategies.context import NoOptions, SearchContext, Strategy
from app.retrieval.types import Hit


async def run(context: SearchContext, _options: NoOptions) -> list[Hit]:
    """``score`` is the cosine; where several models found something, it is scaled within what each of them found."""
    return await context.find(nearest, lexical=False)


def nearest(found: LaneResults) -> Ranked:
    """One list of all queries' cosines (pure)."""
    lanes = [lane for lists in found.dense if (lane := best_of(lists))]
    return lanes[0] if len(lanes) == 1 else fuse_weighted([Lane(1, lane) for lane in lanes])


STRATEGY = Strategy("simple", "Dense: nearest embeddings by cosine.", NoOptions, run)
