"""The simple questions that a query is made of, beside it."""

from pydantic import BaseModel, Field

from app.retrieval.transformers.transformer import TransformContext, Transformer, TransformResult

TASK = """if `query` can only be answered with several facts that stand in different places, write the questions \
for each of them, at most {most}, each complete by itself and in the language of `query`. If \
it asks for one thing, give none."""


class DecomposeOptions(BaseModel, extra="forbid"):
    """How many."""

    max_queries: int = Field(3, ge=2, le=15, description="How many questions a query is split into at most.")


async def run(context: TransformContext, options: DecomposeOptions) -> TransformResult:
    """All count the same."""
    max_queries = options.max_queries
    return TransformResult(await context.fan_out(TASK.format(most=max_queries), max_per_query=max_queries))


TRANSFORMER = Transformer(
    "decompose", "The simple questions in it too.", DecomposeOptions, run, fans_out=True, needs_corpus=False
)
