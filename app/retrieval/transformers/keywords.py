"""Reduction of a query to its keywords."""

from pydantic import BaseModel, Field

from app.lexical.languages import remove_stop_words
from app.retrieval.transformers.transformer import TransformContext, Transformer, TransformResult

TASK = """give the words and names of `query` that a search engine should look for, at most {most}, the most important \
first. Take its own words, in its language, and leave out what only makes it a sentence."""


class KeywordsOptions(BaseModel, extra="forbid"):
    """Options of the transformer ``keywords``: the maximum number of keywords."""

    max_keywords: int = Field(8, ge=1, le=32, description="Maximum number of words or names that a query keeps.")


async def run(context: TransformContext, options: KeywordsOptions) -> TransformResult:
    """Replace each query by its keywords.

    The chat model selects them. If it fails, stop words are removed, provided that all documents are in one language.
    """
    max_keywords = options.max_keywords
    generated = await context.generate_texts(TASK.format(most=max_keywords), max_texts=max_keywords)
    queries = [" ".join(generated.get(query, ())) or _extract_keywords(context, query) for query in context.queries]
    return TransformResult(list(dict.fromkeys(queries)))


def _extract_keywords(context: TransformContext, query: str) -> str:
    return remove_stop_words(context.languages[0], query) if len(context.languages) == 1 else query


TRANSFORMER = Transformer(
    "keywords",
    "The words that matter, without the sentence around them.",
    KeywordsOptions,
    run,
    needs_preview=False,
)
