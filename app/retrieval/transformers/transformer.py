"""What a transformer is, and what it is given: queries, a conversation, and one way to ask the chat model."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, Field

from app.inference.chat import ChatModel, ChatUnavailable
from app.inference.chat.structured_output import Shape
from app.logging import get_logger
from app.retrieval import time_budget
from app.retrieval.conversation import truncate_query
from app.retrieval.search_run import SearchRun, gather
from app.retrieval.transformers.prompt_format import build_prompt
from app.retrieval.types import DegradableStep, Message, Reformulation

logger = get_logger(__name__)

# Of one transformer, all at the same time: queries beyond stay as they are.
MAX_CALLS = 4
MAX_TOKENS = 400

TextsByQuery = Mapping[str, Sequence[str]]
NO_MATERIAL: Mapping[str, Any] = MappingProxyType({})


class ConversationAnalysis(NamedTuple):
    """What of a conversation matters to its question, in words, and the places of the messages that do."""

    text: str
    related_message_indexes: Sequence[int]


class GeneratedTexts(BaseModel):
    """What the model makes of a query."""

    texts: list[str] = Field(max_length=50, description="What was asked for, the best first")


class PreviewSearcher(Protocol):
    """A quick first search: the best passages for these queries; None where they cannot be had in the course's time."""

    async def __call__(self, queries: Sequence[str], search_run: SearchRun, *, max_chunks: int) -> list[str] | None: ...


@dataclass(frozen=True, slots=True)
class TransformContext:
    """One transformer's turn. There is at least one query, and no more than ``max_queries`` may come of them.

    ``question`` is what was asked last, None where several things were. ``languages`` are those of what is searched,
    ``prompt`` is the agent's or the knowledge base's own. The course ends when the model's share of the time does.
    ``needs_analysis`` where it is asked for how a conversation is understood, beside the query.
    """

    name: str
    queries: Sequence[str]
    messages: Sequence[Message]
    question: str | None
    languages: Sequence[str]
    prompt: str | None
    max_queries: int
    chat: ChatModel | None
    search_run: SearchRun
    preview_search: PreviewSearcher | None = None
    needs_analysis: bool = False
    degradable_step: DegradableStep = "rewrite"

    async def generate_structured(
        self, task: str, material: Mapping[str, Any], shape: type[Shape], *, max_tokens: int = MAX_TOKENS
    ) -> Shape | None:
        """The model's answer; None, and the caller is told, where there is none."""
        chat = self._get_chat_model()
        if chat is None:
            return None
        try:
            answer = await chat.complete_structured(
                build_prompt(task, material),
                shape,
                max_tokens=max_tokens,
                timeout_seconds=self.search_run.remaining_seconds,
            )
        except ChatUnavailable as exc:
            logger.warning("search.rewrite_failed", transformer=self.name, reason=exc.reason)
            self.search_run.degrade(self.degradable_step, exc.reason)
            self.search_run.add_notice(f"The chat model could not answer: {self.name} did what it can without.")
            return None
        return answer.value

    def _get_chat_model(self) -> ChatModel | None:
        """The model, where there is one and time for it; else the caller is told."""
        if self.chat is None:
            self.search_run.add_notice(f"No chat model is configured: {self.name} did what it can without.")
        elif self.search_run.remaining_seconds < time_budget.MIN_REWRITE_SECONDS:
            self.search_run.degrade(self.degradable_step, "no_time")
            self.search_run.add_notice(
                f"There was no time left for the chat model: {self.name} did what it can without."
            )
            return None
        return self.chat

    async def fetch_preview_chunks(self, max_chunks: int) -> list[str] | None:
        """What a quick first search finds for the queries; None, and the caller is told, where it is of no use.

        They are written by others: give them to the model as material, and never in a task.
        """
        if self._get_chat_model() is None:
            return None
        chunks = (
            await self.preview_search(
                self.queries, self.search_run.with_time_share(time_budget.PREVIEW_SEARCH), max_chunks=max_chunks
            )
            if self.preview_search
            else None
        )
        if chunks is None:
            self.search_run.degrade(self.degradable_step, "preview_search")
            self.search_run.add_notice(f"The first search could not be made in time: {self.name} was left out.")
        return chunks

    async def generate_texts(
        self,
        task: str,
        *,
        max_texts: int,
        max_calls: int = MAX_CALLS,
        max_tokens: int = MAX_TOKENS,
        extra_material: Mapping[str, Any] = NO_MATERIAL,
    ) -> TextsByQuery:
        """What the model writes to each of the first queries, at most so many texts; none where it cannot answer."""
        queries = self.queries[: min(max_calls, MAX_CALLS)]
        answers = [
            self.generate_structured(task, {"query": query, **extra_material}, GeneratedTexts, max_tokens=max_tokens)
            for query in queries
        ]
        results = await gather(answers)
        return {
            query: normalize_queries(answer.texts)[:max_texts] if answer else []
            for query, answer in zip(queries, results, strict=True)
        }

    async def fan_out(
        self, task: str, *, max_per_query: int, replace_queries: bool = False, max_tokens: int = MAX_TOKENS
    ) -> list[str]:
        """The queries and up to ``max_per_query`` more for every one, or those in its place.

        Never more than ``max_queries``.
        """
        capacity = self.max_queries - len(self.queries)
        if capacity < 1:
            self.search_run.add_notice(f"There are {len(self.queries)} queries already: {self.name} added none.")
            return list(self.queries)
        generated = await self.generate_texts(
            task, max_texts=max_per_query, max_calls=-(-capacity // max_per_query), max_tokens=max_tokens
        )
        originals = [query for query in self.queries if not (replace_queries and generated.get(query))]
        queries = list(dict.fromkeys([*originals, *(text for texts in generated.values() for text in texts)]))
        expanded_count, query_count = len(generated), len(set(self.queries))
        if len(queries) > self.max_queries:
            self.search_run.add_notice(
                f"At most {self.max_queries} queries may come of {self.name}: the others were left out."
            )
        elif expanded_count < query_count and any(generated.values()):
            self.search_run.add_notice(
                f"{self.name} was done for the first {expanded_count} of {query_count} queries: more would be too many."
            )
        return queries[: self.max_queries]

    async def rewrite_each(
        self, task: str, *, max_tokens: int = MAX_TOKENS, extra_material: Mapping[str, Any] = NO_MATERIAL
    ) -> list[str]:
        """Return each query as the model rewrites it with ``extra_material``, or unchanged if the model fails."""
        generated = await self.generate_texts(task, max_texts=1, max_tokens=max_tokens, extra_material=extra_material)
        return list(dict.fromkeys((generated.get(query) or [query])[0] for query in self.queries))


OptionsT = TypeVar("OptionsT", bound=BaseModel)


class NoTransformerOptions(BaseModel, extra="forbid"):
    """A transformer without options."""


@dataclass(frozen=True, slots=True)
class TransformResult:
    """The queries to go on with, at least one; what the conversation was understood as, where that was asked.

    Its ``analysis`` may still be under way, beside the search.
    """

    queries: Sequence[str]
    reformulation: Reformulation | None = None
    analysis: Awaitable[ConversationAnalysis] | None = None

    async def await_reformulation(self) -> Reformulation | None:
        """The reformulation as a whole, waited for."""
        if self.reformulation is None or self.analysis is None:
            return self.reformulation
        analysis, related = await self.analysis
        return replace(self.reformulation, analysis=analysis, related=related)


@dataclass(frozen=True, slots=True)
class Transformer(Generic[OptionsT]):
    """A way to make other queries, by name; those that fan out come after the others. ``run`` never fails.

    One that ``takes_prompt`` does what a ``rewrite_prompt`` says. One without ``needs_corpus`` looks at
    nothing of what is searched, and runs while knowledge bases are still chosen.
    """

    name: str
    description: str
    options: type[OptionsT]
    run: Callable[[TransformContext, OptionsT], Awaitable[TransformResult]]
    fans_out: bool = False
    takes_prompt: bool = False
    needs_corpus: bool = True


def normalize_queries(texts: Sequence[str]) -> list[str]:
    """Each on one line, none empty, none over-long, without what cannot be stored (pure)."""
    lines = (truncate_query(" ".join(text.replace("\0", " ").split())) for text in texts)
    return [line for line in lines if line]
