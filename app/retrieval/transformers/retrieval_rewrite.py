"""Queries rewritten with what a first search finds in view."""

from pydantic import BaseModel, Field

from app.retrieval.transformers.transformer import TransformContext, Transformer, TransformResult

TASK = """rewrite `query` so that it finds what answers it. `passages` is what a quick first search has found, from \
those documents, the best first: take over the words in which they speak of it. If they are about something else, \
leave them alone, and say what is asked for in other words. It must go on asking for the same, in the language of \
`query`; do not put the answer into it."""
# Of one passage: its beginning shows the words.
MAX_CHUNK_CHARACTERS = 800


class RetrievalRewriteOptions(BaseModel, extra="forbid"):
    """Options of ``retrieval_rewrite``."""

    chunks: int = Field(3, ge=1, le=10, description="How many chunks of the first search the model sees.")


async def run(context: TransformContext, options: RetrievalRewriteOptions) -> TransformResult:
    """As they are, and the caller is told, where no model could read what is found, or nothing can be found in time."""
    chunks = await context.fetch_preview_chunks(options.chunks)
    if chunks is None:
        return TransformResult(context.queries)
    excerpts = [chunk[:MAX_CHUNK_CHARACTERS] for chunk in chunks]
    return TransformResult(await context.rewrite_each(TASK, extra_material={"passages": excerpts}))


TRANSFORMER = Transformer(
    "retrieval_rewrite", "In the words of what a quick first search finds.", RetrievalRewriteOptions, run
)
