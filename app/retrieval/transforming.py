"""The transformers of a search, one after the other, inside the share of its time that a chat model may take."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.inference.chat import ChatModel
from app.retrieval.course import Course
from app.retrieval.transformers import Step
from app.retrieval.transformers.context import Look, TransformContext
from app.retrieval.types import Message, Query, Reformulation

MOST_QUERIES = 16
# Of the time left; and no more than so many seconds where nobody has asked for it: what is had without it is good.
SHARE, HURRIED_SECONDS = 0.3, 1.2


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said; ``asks`` where the queries were made of it, not given beside it."""

    messages: Sequence[Message]
    asks: bool


@dataclass(frozen=True, slots=True)
class Rewriting:
    """``languages`` and ``prompt`` are those of what is searched; ``hurried`` where nobody has asked for it."""

    chat: ChatModel | None
    course: Course
    languages: Sequence[str]
    prompt: str | None
    hurried: bool
    look: Look | None = None

    async def run(
        self, steps: Sequence[Step], queries: Sequence[Query], conversation: Conversation
    ) -> tuple[list[Query], Reformulation | None]:
        """The queries in words as the steps leave them, then the vectors and pictures, which stay as they are."""
        texts = [query.text for query in queries if query.text is not None and query.vector is None]
        if not steps or not texts:
            return list(queries), None
        others = [query for query in queries if query.text is None or query.vector is not None]
        context = TransformContext(
            name="",
            queries=texts,
            messages=conversation.messages,
            question=texts[0] if conversation.asks or len(texts) == 1 else None,
            languages=self.languages,
            prompt=self.prompt,
            most=MOST_QUERIES - len(others),
            chat=self.chat,
            course=self.course.part(SHARE, most=HURRIED_SECONDS if self.hurried else None),
            look=self.look,
        )
        reformulation = None
        with self.course.timing("rewrite"):
            for step in steps:
                context = replace(context, name=step.transformer.name)
                rewritten = await step.transformer.run(context, step.options)
                context = replace(context, queries=rewritten.queries)
                reformulation = rewritten.reformulation or reformulation
        return [*map(Query, context.queries), *others], reformulation
