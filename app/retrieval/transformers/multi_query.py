"""Other wordings of a query, beside it."""

from pydantic import BaseModel, Field

from app.retrieval.transformers.context import Rewritten, TransformContext, Transformer

TASK = """write {number} other queries that ask for the same as `query`: in other words, from other sides, as the \
documents may put it. Each is complete by itself, and in the language of `query`."""


class MultiQueryOptions(BaseModel, extra="forbid"):
    """How many."""

    num_queries: int = Field(3, ge=1, le=15, description="How many others are searched for beside a query.")


async def run(context: TransformContext, options: MultiQueryOptions) -> Rewritten:
    """All count the same."""
    number = options.num_queries
    return Rewritten(await context.fan_out(TASK.format(number=number), each=number))


TRANSFORMER = Transformer(
    "multi_query", "The same in other words too.", MultiQueryOptions, run, fans_out=True, looks=False
)
