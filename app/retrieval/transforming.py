"""The transformers of a search, one after the other, inside the share of its time that a chat model may take."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.inference.chat import ChatModel
from app.retrieval.course import Course
from app.retrieval.transformers import Step
from app.retrieval.transformers.context import TransformContext
from app.retrieval.types import Message, Query, Reformulation

MOST_QUERIES = 16
# Of the time left; and no more than so many seconds where nobody has asked for it: what is had without it is good.
SHARE, UNASKED_SECONDS = 0.3, 1.2


@dataclass(frozen=True, slots=True)
class Rewriter:
    """``languages`` and ``prompt`` are those of what is searched."""

    chat: ChatModel | None
    course: Course
    languages: Sequence[str]
    prompt: str | None

    async def run(
        self,
        steps: Sequence[Step],
        queries: Sequence[Query],
        messages: Sequence[Message],
        *,
        derived: bool,
        asked: bool,
    ) -> tuple[list[Query], Reformulation | None]:
        """The queries in words as the steps leave them, then the vectors and pictures, which stay as they are.

        ``derived`` where the queries were made of the messages, ``asked`` where anybody wants just these steps.
        """
        texts = [query.text for query in queries if _in_words(query) and query.text is not None]
        if not steps or not texts:
            return list(queries), None
        others = [query for query in queries if not _in_words(query)]
        part = self.course.part(SHARE, most=None if asked else UNASKED_SECONDS)
        question = texts[0] if derived or len(texts) == 1 else None
        reformulation = None
        with self.course.timing("rewrite"):
            for step in steps:
                context = TransformContext(
                    name=step.transformer.name,
                    queries=texts,
                    messages=messages,
                    question=question,
                    languages=self.languages,
                    prompt=self.prompt,
                    most=MOST_QUERIES - len(others),
                    chat=self.chat,
                    course=part,
                )
                rewritten = await step.transformer.run(context, step.options)
                texts = list(rewritten.queries)
                reformulation = rewritten.reformulation or reformulation
        return [*map(Query, texts), *others], reformulation


def _in_words(query: Query) -> bool:
    return query.text is not None and query.vector is None
