"""Queries in the language of what is searched."""

from app.retrieval.transformers.context import NoOptions, Rewritten, TransformContext, Transformer

TASK = """translate `query` to the language {language}, as somebody would ask it who speaks that language. Names, \
identifiers, numbers and quoted words stay. What is in that language already stays as it is."""


async def run(context: TransformContext, _options: NoOptions) -> Rewritten:
    """As they are, and the caller is told, where that is not one language."""
    if len(context.languages) != 1:
        context.course.remark("What is searched is not in one language: the queries were not translated.")
        return Rewritten(context.queries)
    return Rewritten(await context.replaced(TASK.format(language=context.languages[0])))


TRANSFORMER = Transformer("translate", "Into the language of the knowledge base.", NoOptions, run)
