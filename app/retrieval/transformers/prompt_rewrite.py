"""Queries rewritten as the agent's or the knowledge base's own prompt says."""

from app.retrieval.transformers.transformer import NoTransformerOptions, TransformContext, Transformer, TransformResult
from app.warnings import ServiceWarning, WarningCode

# The prompt is an administrator's, so that it may be part of the instructions.
TASK = """rewrite `query` so that it finds more in these documents. It must go on asking for the same. Whoever looks \
after the documents says how:
{prompt}"""
REWRITE_PROMPT_MISSING = ServiceWarning(
    WarningCode.REWRITE_PROMPT_MISSING,
    "There is no rewrite_prompt of one knowledge base: prompt_rewrite changed nothing.",
)


async def run(context: TransformContext, _options: NoTransformerOptions) -> TransformResult:
    """As they are, and the caller is told, where there is none."""
    if context.prompt is None:
        context.search_run.add_notice(REWRITE_PROMPT_MISSING)
        return TransformResult(context.queries)
    return TransformResult(await context.rewrite_each(TASK.format(prompt=context.prompt)))


TRANSFORMER = Transformer(
    "prompt_rewrite",
    "As the agent's or the knowledge base's `rewrite_prompt` says.",
    NoTransformerOptions,
    run,
    takes_prompt=True,
    needs_corpus=False,
)
