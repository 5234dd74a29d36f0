"""Further wordings of a query, which are added to the query."""

from pydantic import BaseModel, Field

from app.retrieval.transformers.transformer import TransformContext, Transformer, TransformResult

TASK = """write {number} other queries that ask for the same as `query`: in other words, from other sides, as the \
documents may put it. Each is complete by itself, and in the language of `query`."""


class MultiQueryTransformerOptions(BaseModel, extra="forbid"):
    """Options of the transformer ``multi_query``: the number of further wordings."""

    num_queries: int = Field(3, ge=1, le=15, description="Number of further wordings for a query.")


async def run(context: TransformContext, options: MultiQueryTransformerOptions) -> TransformResult:
    """Add further wordings of each query. All queries have the same weight."""
    number = options.num_queries
    return TransformResult(await context.fan_out(TASK.format(number=number), max_per_query=number))


TRANSFORMER = Transformer(
    "multi_query",
    "The same in other words too.",
    MultiQueryTransformerOptions,
    run,
    fans_out=True,
    needs_corpus=False,
    needs_preview=False,
)
