"""Rewriting of queries with the prompt of the agent or the knowledge base."""

from app.retrieval.transformers.transformer import NoTransformerOptions, TransformContext, Transformer, TransformResult
from app.warnings import ServiceWarning, WarningCode

# An administrator wrote the prompt, so it may be part of the instructions.
TASK = """rewrite `query` so that it finds more in these documents. It must go on asking for the same. The \
administrator of the documents says how:
{prompt}"""
REWRITE_PROMPT_MISSING = ServiceWarning(
    WarningCode.REWRITE_PROMPT_MISSING,
    "No rewrite_prompt applies to this search, so prompt_rewrite changed nothing.",
)


async def run(context: TransformContext, _options: NoTransformerOptions) -> TransformResult:
    """Rewrite each query with the prompt; without a prompt, leave the queries unchanged with a notice."""
    if context.prompt is None:
        context.search_run.add_notice(REWRITE_PROMPT_MISSING)
        return TransformResult(context.queries)
    return TransformResult(await context.rewrite_each(TASK.format(prompt=context.prompt)))


TRANSFORMER = Transformer(
    "prompt_rewrite",
    "Rewrites queries with the `rewrite_prompt` of the agent or the knowledge base.",
    NoTransformerOptions,
    run,
    takes_prompt=True,
    needs_corpus=False,
    needs_preview=False,
    varies_by_source=True,
)
