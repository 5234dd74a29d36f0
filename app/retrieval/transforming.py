"""The transformers of a search, one after the other, inside the share of its time that a chat model may take."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.inference.chat import ChatModel
from app.retrieval import shares
from app.retrieval.course import NO_EXTRA_QUERIES, Course
from app.retrieval.transformers import Step
from app.retrieval.transformers.context import Look, Rewritten, TransformContext
from app.retrieval.types import Droppable, Message, Query

MOST_QUERIES = 16


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said; ``asks`` where the queries were made of it, not given beside it.

    ``analysed`` where somebody wants to know how it is understood, beside what is searched for.
    """

    messages: Sequence[Message]
    asks: bool
    analysed: bool = False


class Ground(NamedTuple):
    """What is searched, as transformers see it."""

    languages: Sequence[str] = ()
    look: Look | None = None


@dataclass(frozen=True, slots=True)
class Rewriting:
    """``ground`` and ``prompt`` are those of what is searched; ``hurried`` where nobody has asked for it."""

    chat: ChatModel | None
    course: Course
    ground: Callable[[], Awaitable[Ground]]
    prompt: str | None
    hurried: bool

    async def run(
        self, steps: Sequence[Step], queries: Sequence[Query], conversation: Conversation
    ) -> tuple[list[Query], Rewritten]:
        """The queries in words as the steps leave them, then the vectors and pictures, which stay as they are.

        And what the conversation was understood as. What is searched is waited for only where a step looks at it.
        """
        texts = [query.text for query in queries if query.text is not None and query.vector is None]
        if not steps or not texts:
            return list(queries), Rewritten(texts)
        others = [query for query in queries if query.text is None or query.vector is not None]
        ground = await self.ground() if any(step.transformer.looks for step in steps) else Ground()
        context = TransformContext(
            name="",
            queries=texts,
            messages=conversation.messages,
            question=texts[0] if conversation.asks or len(texts) == 1 else None,
            languages=ground.languages,
            prompt=self.prompt,
            most=MOST_QUERIES - len(others),
            chat=self.chat,
            course=self.course.part(shares.REWRITE, most=shares.HURRIED_SECONDS if self.hurried else None),
            look=ground.look,
            analysed=conversation.analysed,
        )
        made: Sequence[str] = texts
        understood, asked = Rewritten(texts), frozenset(texts)
        with self.course.timing("rewrite"):
            for step in steps:
                fans_out = step.transformer.fans_out
                part: Droppable = "extra_queries" if fans_out else "rewrite"
                turn = replace(context, name=step.transformer.name, queries=made, part=part)
                rewritten = await step.transformer.run(turn, step.options)
                made = rewritten.queries
                understood = rewritten if rewritten.reformulation is not None else understood
                asked = asked if fans_out else frozenset(made)
        # Where all of them were replaced, what came in their place is what is asked.
        asked = asked.intersection(made) or frozenset(made)
        searched = [Query(text, extra=text not in asked) for text in made]
        return [*self._fitting(searched), *others], understood

    def _fitting(self, queries: Sequence[Query]) -> list[Query]:
        """Without the extra ones, where there is no time for them; the caller is told."""
        left = [query for query in queries if not query.extra]
        if len(left) < len(queries) and self.course.remaining < shares.EXTRA_LEAST_SECONDS:
            self.course.drop("extra_queries", "no_time")
            self.course.remark(NO_EXTRA_QUERIES)
            return left
        return list(queries)
