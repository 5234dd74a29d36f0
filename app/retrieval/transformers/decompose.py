"""Decomposition of a query into simple questions, which are added to the query."""

from pydantic import BaseModel, Field

from app.retrieval.transformers.transformer import TransformContext, Transformer, TransformResult

TASK = """if `query` can only be answered with several facts that stand in different places, write the questions \
for each of them, at most {most}, each complete by itself and in the language of `query`. If \
it asks for one thing, give none."""


class DecomposeOptions(BaseModel, extra="forbid"):
    """Options of the transformer ``decompose``: the maximum number of questions."""

    max_queries: int = Field(3, ge=2, le=15, description="Maximum number of questions for a query.")


async def run(context: TransformContext, options: DecomposeOptions) -> TransformResult:
    """Add the questions that a query consists of. All queries have the same weight."""
    max_queries = options.max_queries
    return TransformResult(await context.fan_out(TASK.format(most=max_queries), max_per_query=max_queries))


TRANSFORMER = Transformer(
    "decompose",
    "The simple questions in it too.",
    DecomposeOptions,
    run,
    fans_out=True,
    needs_corpus=False,
    needs_preview=False,
)
