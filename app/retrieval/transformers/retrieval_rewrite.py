"""Rewriting of queries in the words of the chunks that a first search finds."""

from pydantic import BaseModel, Field

from app.retrieval.transformers.transformer import TransformContext, Transformer, TransformResult

TASK = """rewrite `query` so that it finds what answers it. `passages` is what a quick first search has found, from \
those documents, the best first: take over the words in which they speak of it. If they are about something else, \
leave them alone, and say what is asked for in other words. It must go on asking for the same, in the language of \
`query`; do not put the answer into it."""
# Maximum characters of a chunk: its beginning shows enough of its words.
MAX_CHUNK_CHARACTERS = 800


class RetrievalRewriteOptions(BaseModel, extra="forbid"):
    """Options of the transformer ``retrieval_rewrite``: the number of chunks that the chat model reads."""

    chunks: int = Field(3, ge=1, le=10, description="Number of chunks of the first search that the model reads.")


async def run(context: TransformContext, options: RetrievalRewriteOptions) -> TransformResult:
    """Rewrite each query in the words of a first search.

    If the chat model or the first search is not available in time, the queries stay unchanged, with a notice.
    """
    chunks = await context.fetch_preview_chunks(options.chunks)
    if chunks is None:
        return TransformResult(context.queries)
    excerpts = [chunk[:MAX_CHUNK_CHARACTERS] for chunk in chunks]
    return TransformResult(await context.rewrite_each(TASK, extra_material={"passages": excerpts}))


TRANSFORMER = Transformer(
    "retrieval_rewrite",
    "Rewrites queries in the words of the chunks that a first search finds.",
    RetrievalRewriteOptions,
    run,
)
