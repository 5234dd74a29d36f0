"""Invented passages that would answer a query, used as queries (hypothetical document embeddings; Gao et al., 2022)."""

from pydantic import BaseModel, Field

from app.retrieval.transformers.transformer import TransformContext, Transformer, TransformResult

TASK = """write {number} passages, each of two or three sentences, as they might stand in the documents and would \
answer `query`, in its language. Invent what you do not know: nobody reads them, they are \
compared with real passages."""
TOKENS_PER_ANSWER = 200


class HydeTransformerOptions(BaseModel, extra="forbid"):
    """Number of invented answers, and whether they replace the query."""

    n_hypothetical: int = Field(1, ge=1, le=8, description="Number of invented answers for a query.")
    replace: bool = Field(False, description="Whether the answers replace the query.")


async def run(context: TransformContext, options: HydeTransformerOptions) -> TransformResult:
    """Add invented answers to the queries, or replace the queries with them. All queries have the same weight."""
    number = options.n_hypothetical
    queries = await context.fan_out(
        TASK.format(number=number),
        max_per_query=number,
        replace_queries=options.replace,
        max_tokens=TOKENS_PER_ANSWER * (number + 1),
    )
    return TransformResult(queries)


TRANSFORMER = Transformer(
    "hyde",
    "Invented answers, which look like the real ones.",
    HydeTransformerOptions,
    run,
    fans_out=True,
    needs_corpus=False,
    needs_preview=False,
)
