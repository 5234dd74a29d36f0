"""Translation of queries to the language of the searched knowledge bases."""

from app.retrieval.transformers.transformer import NoTransformerOptions, TransformContext, Transformer, TransformResult
from app.warnings import ServiceWarning, WarningCode

TASK = """translate `query` to the language {language}, as somebody would ask it who speaks that language. Names, \
identifiers, numbers and quoted words stay. What is in that language already stays as it is."""
TRANSLATION_SKIPPED = ServiceWarning(
    WarningCode.TRANSLATION_SKIPPED, "The searched knowledge bases have no common language, so nothing was translated."
)


async def run(context: TransformContext, _options: NoTransformerOptions) -> TransformResult:
    """Translate each query; if the knowledge bases do not have exactly one language, leave the queries unchanged."""
    if len(context.languages) != 1:
        context.search_run.add_notice(TRANSLATION_SKIPPED)
        return TransformResult(context.queries)
    return TransformResult(await context.rewrite_each(TASK.format(language=context.languages[0])))


TRANSFORMER = Transformer(
    "translate",
    "Into the language of the knowledge base.",
    NoTransformerOptions,
    run,
    needs_preview=False,
    varies_by_source=True,
)
