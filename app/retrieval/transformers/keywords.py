"""The words to look for."""

from pydantic import BaseModel, Field

from app.lexical.languages import meaningful
from app.retrieval.transformers.context import Rewritten, TransformContext, Transformer

TASK = """give the words and names of `query` that a search engine should look for, at most {most}, the most important \
first. Take its own words, in its language, and leave out what only makes it a sentence."""


class KeywordsOptions(BaseModel, extra="forbid"):
    """How many."""

    max_keywords: int = Field(8, ge=1, le=32, description="How many words or names a query keeps.")


async def run(context: TransformContext, options: KeywordsOptions) -> Rewritten:
    """The model's choice; else the words that mean something, where all is in one language."""
    most = options.max_keywords
    made = await context.written(TASK.format(most=most), most=most)
    queries = [" ".join(made.get(query, ())) or _own(context, query) for query in context.queries]
    return Rewritten(list(dict.fromkeys(queries)))


def _own(context: TransformContext, query: str) -> str:
    return meaningful(context.languages[0], query) if len(context.languages) == 1 else query


TRANSFORMER = Transformer("keywords", "The words that matter, without the sentence around them.", KeywordsOptions, run)
