"""Passages that would answer a query, to be searched for (hypothetical document embeddings; Gao et al., 2022)."""

from pydantic import BaseModel, Field

from app.retrieval.transformers.transformer import TransformContext, Transformer, TransformResult

TASK = """write {number} passages, each of two or three sentences, as they might stand in the documents and would \
answer `query`, in its language. Invent what you do not know: nobody reads them, they are \
compared with real passages."""
TOKENS_PER_ANSWER = 200


class HydeTransformerOptions(BaseModel, extra="forbid"):
    """How many, and in whose place."""

    n_hypothetical: int = Field(1, ge=1, le=8, description="How many answers are invented for a query.")
    replace: bool = Field(False, description="Search for them in the place of the query, not beside it.")


async def run(context: TransformContext, options: HydeTransformerOptions) -> TransformResult:
    """All count the same."""
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
)
