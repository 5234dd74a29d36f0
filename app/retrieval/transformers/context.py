"""What a transformer is, and what it is given: queries, a conversation, and one way to ask the chat model."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, Field

from app.inference.chat import ChatModel, ChatUnavailable
from app.inference.structured import Shape
from app.logging import get_logger
from app.retrieval import shares
from app.retrieval.course import Course, together
from app.retrieval.rewriting import clip
from app.retrieval.transformers.prompting import prompt
from app.retrieval.types import Droppable, Message, Reformulation

logger = get_logger(__name__)

# Of one transformer, all at the same time: queries beyond stay as they are.
MOST_CALLS = 4
MAX_TOKENS = 400

Made = Mapping[str, Sequence[str]]
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Analysis(NamedTuple):
    """What of a conversation matters to its question, in words, and the places of the messages that do."""

    text: str
    related: Sequence[int]


class Written(BaseModel):
    """What the model makes of a query."""

    texts: list[str] = Field(max_length=50, description="What was asked for, the best first")


class Look(Protocol):
    """A quick first search: the best passages for these queries; None where they cannot be had in the course's time."""

    async def __call__(self, queries: Sequence[str], course: Course, *, most: int) -> list[str] | None: ...


@dataclass(frozen=True, slots=True)
class TransformContext:
    """One transformer's turn. There is at least one query, and no more than ``most`` may come of them.

    ``question`` is what was asked last, None where several things were. ``languages`` are those of what is searched,
    ``prompt`` is the agent's or the knowledge base's own. The course ends when the model's share of the time does.
    ``analysed`` where it is asked for how a conversation is understood, beside the query.
    """

    name: str
    queries: Sequence[str]
    messages: Sequence[Message]
    question: str | None
    languages: Sequence[str]
    prompt: str | None
    most: int
    chat: ChatModel | None
    course: Course
    look: Look | None = None
    analysed: bool = False
    part: Droppable = "rewrite"

    async def ask(
        self, task: str, material: Mapping[str, Any], shape: type[Shape], *, max_tokens: int = MAX_TOKENS
    ) -> Shape | None:
        """The model's answer; None, and the caller is told, where there is none."""
        chat = self._chat()
        if chat is None:
            return None
        try:
            answer = await chat.structured(
                prompt(task, material), shape, max_tokens=max_tokens, seconds=self.course.remaining
            )
        except ChatUnavailable as exc:
            logger.warning("search.rewrite_failed", transformer=self.name, reason=exc.reason)
            self.course.drop(self.part, exc.reason)
            self.course.remark(f"The chat model could not answer: {self.name} did what it can without.")
            return None
        return answer.value

    def _chat(self) -> ChatModel | None:
        """The model, where there is one and time for it; else the caller is told."""
        if self.chat is None:
            self.course.remark(f"No chat model is configured: {self.name} did what it can without.")
        elif self.course.remaining < shares.REWRITE_LEAST_SECONDS:
            self.course.drop(self.part, "no_time")
            self.course.remark(f"There was no time left for the chat model: {self.name} did what it can without.")
            return None
        return self.chat

    async def first_passages(self, most: int) -> list[str] | None:
        """What a quick first search finds for the queries; None, and the caller is told, where it is of no use.

        They are written by others: give them to the model as material, and never in a task.
        """
        if self._chat() is None:
            return None
        found = await self.look(self.queries, self.course.part(shares.LOOK), most=most) if self.look else None
        if found is None:
            self.course.drop(self.part, "look")
            self.course.remark(f"The first search could not be made in time: {self.name} was left out.")
        return found

    async def written(
        self,
        task: str,
        *,
        most: int,
        calls: int = MOST_CALLS,
        max_tokens: int = MAX_TOKENS,
        beside: Mapping[str, Any] = NOTHING,
    ) -> Made:
        """What the model writes to each of the first queries, at most so many texts; none where it cannot answer."""
        asked = self.queries[: min(calls, MOST_CALLS)]
        answers = [self.ask(task, {"query": query, **beside}, Written, max_tokens=max_tokens) for query in asked]
        made = await together(answers)
        return {query: tidied(answer.texts)[:most] if answer else [] for query, answer in zip(asked, made, strict=True)}

    async def fan_out(
        self, task: str, *, each: int, replacing: bool = False, max_tokens: int = MAX_TOKENS
    ) -> list[str]:
        """The queries and up to ``each`` more for every one, or those in its place; never more than ``most``."""
        room = self.most - len(self.queries)
        if room < 1:
            self.course.remark(f"There are {len(self.queries)} queries already: {self.name} added none.")
            return list(self.queries)
        made = await self.written(task, most=each, calls=-(-room // each), max_tokens=max_tokens)
        kept = [query for query in self.queries if not (replacing and made.get(query))]
        queries = list(dict.fromkeys([*kept, *(text for texts in made.values() for text in texts)]))
        asked, known = len(made), len(set(self.queries))
        if len(queries) > self.most:
            self.course.remark(f"At most {self.most} queries may come of {self.name}: the others were left out.")
        elif asked < known and any(made.values()):
            self.course.remark(
                f"{self.name} was done for the first {asked} of {known} queries: more would be too many."
            )
        return queries[: self.most]

    async def replaced(
        self, task: str, *, max_tokens: int = MAX_TOKENS, beside: Mapping[str, Any] = NOTHING
    ) -> list[str]:
        """Each query as the model writes it anew, with what is ``beside`` it; as it is where that cannot be had."""
        made = await self.written(task, most=1, max_tokens=max_tokens, beside=beside)
        return list(dict.fromkeys((made.get(query) or [query])[0] for query in self.queries))


OptionsT = TypeVar("OptionsT", bound=BaseModel)


class NoOptions(BaseModel, extra="forbid"):
    """A transformer without options."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The queries to go on with, at least one; what the conversation was understood as, where that was asked.

    Its ``analysis`` may still be under way, beside the search.
    """

    queries: Sequence[str]
    reformulation: Reformulation | None = None
    analysis: Awaitable[Analysis] | None = None

    async def understood(self) -> Reformulation | None:
        """The reformulation as a whole, waited for."""
        if self.reformulation is None or self.analysis is None:
            return self.reformulation
        analysis, related = await self.analysis
        return replace(self.reformulation, analysis=analysis, related=related)


@dataclass(frozen=True, slots=True)
class Transformer(Generic[OptionsT]):
    """A way to make other queries, by name; those that fan out come after the others. ``run`` never fails.

    One that ``takes_prompt`` does what a ``rewrite_prompt`` says. One that never ``looks`` at what is searched, neither
    at its languages nor for first passages, runs while knowledge bases are still chosen.
    """

    name: str
    description: str
    options: type[OptionsT]
    run: Callable[[TransformContext, OptionsT], Awaitable[Rewritten]]
    fans_out: bool = False
    takes_prompt: bool = False
    looks: bool = True


def tidied(texts: Sequence[str]) -> list[str]:
    """Each on one line, none empty, none over-long, without what cannot be stored (pure)."""
    lines = (clip(" ".join(text.replace("\0", " ").split())) for text in texts)
    return [line for line in lines if line]
