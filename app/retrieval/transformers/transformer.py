"""Interface of transformers: the transformer itself, its context with queries and the chat model, and its result."""

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
from app.retrieval.explain import DegradableStep, Reformulation
from app.retrieval.search_run import SearchRun, gather
from app.retrieval.transformers.prompt_format import build_prompt
from app.retrieval.types import Message
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

MAX_CALLS = 4
"""Maximum number of parallel calls of the chat model in one transformer; further queries stay unchanged."""

MAX_TOKENS = 400
"""Default for the maximum number of tokens of one answer of the chat model."""

TextsByQuery = Mapping[str, Sequence[str]]
NO_MATERIAL: Mapping[str, Any] = MappingProxyType({})


class ConversationAnalysis(NamedTuple):
    """Analysis of a conversation.

    Attributes:
        text: Description of the parts of the conversation that matter to the last question.
        related_message_indexes: Indexes of the messages that matter to the last question.
    """

    text: str
    related_message_indexes: Sequence[int]


class GeneratedTexts(BaseModel):
    """Texts that the chat model writes for a query."""

    texts: list[str] = Field(max_length=50, description="What was asked for, the best first")


class PreviewSearcher(Protocol):
    """Function that makes a quick first search."""

    async def __call__(self, queries: Sequence[str], search_run: SearchRun, *, max_chunks: int) -> list[str] | None:
        """Return the texts of the best chunks for the queries; None if the time of ``search_run`` is too short."""


@dataclass(frozen=True, slots=True)
class TransformContext:
    """Context of one transformer in a search.

    Attributes:
        name: Name of the transformer.
        queries: Current queries, at least one.
        messages: Messages of the conversation; empty if the search has queries instead.
        question: Last question of the caller; None if the search has several queries.
        languages: Languages of the searched knowledge bases, as language codes.
        prompt: Prompt of the agent or the knowledge base; None if there is none.
        max_queries: Maximum number of queries that the transformer may return.
        chat: Chat model; None if none is configured.
        search_run: Notices and deadline of the search; the deadline is the end of the time for the chat model.
        preview_search: Quick first search; use ``fetch_preview_chunks``.
        needs_analysis: Whether the caller wants an analysis of the conversation as well.
        degradable_step: Step that is reported as degraded if the transformer fails.
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
        """Call the chat model and parse its answer.

        Args:
            task: Instruction for the model. Never put text of callers or documents into it.
            material: Text of callers and documents, by name. The model gets it as strings of a JSON object.
            shape: Pydantic model of the answer.
            max_tokens: Maximum number of tokens of the answer.

        Returns:
            The answer; None if no chat model is configured, or if the model fails or answers too late. The caller gets
            a notice.
        """
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
            message = f"The chat model did not answer, so {self.name} ran without it."
            self.search_run.add_notice(ServiceWarning(WarningCode.CHAT_MODEL_UNAVAILABLE, message))
            return None
        return answer.value

    def _get_chat_model(self) -> ChatModel | None:
        """Return the chat model; if there is none or no time for it, add a notice and return None."""
        if self.chat is None:
            message = f"No chat model is configured, so {self.name} ran without it."
            self.search_run.add_notice(ServiceWarning(WarningCode.CHAT_MODEL_NOT_CONFIGURED, message))
        elif self.search_run.remaining_seconds < time_budget.MIN_REWRITE_SECONDS:
            self.search_run.degrade(self.degradable_step, "no_time")
            message = f"The remaining time was too short for the chat model, so {self.name} ran without it."
            self.search_run.add_notice(ServiceWarning(WarningCode.CHAT_MODEL_SKIPPED, message))
            return None
        return self.chat

    async def fetch_preview_chunks(self, max_chunks: int) -> list[str] | None:
        """Make a quick first search with the current queries.

        The texts are written by others: give them to the model as material, never in a task.

        Args:
            max_chunks: Maximum number of chunks.

        Returns:
            The texts of the best chunks; None if no chat model can use them, or if the time is too short. The caller
            gets a notice.
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
            message = f"The first search was not possible in time, so {self.name} was skipped."
            self.search_run.add_notice(ServiceWarning(WarningCode.TRANSFORMER_SKIPPED, message))
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
        """Let the chat model write texts for each of the first queries.

        Args:
            task: Instruction for the model; the material has the query as ``query``.
            max_texts: Maximum number of texts for a query.
            max_calls: Maximum number of queries, at most 4; each is one call of the model.
            max_tokens: Maximum number of tokens of an answer.
            extra_material: Further material, by name.

        Returns:
            The texts by query; no texts for a query that the model did not answer.
        """
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
        """Let the chat model write further queries for each query.

        Args:
            task: Instruction for the model; the material has the query as ``query``.
            max_per_query: Maximum number of further queries for each query.
            replace_queries: Whether the further queries replace the query.
            max_tokens: Maximum number of tokens of an answer.

        Returns:
            The queries and the further queries, at most ``max_queries``.
        """
        capacity = self.max_queries - len(self.queries)
        if capacity < 1:
            self._report_query_limit(f"There are already {len(self.queries)} queries, so {self.name} added none.")
            return list(self.queries)
        generated = await self.generate_texts(
            task, max_texts=max_per_query, max_calls=-(-capacity // max_per_query), max_tokens=max_tokens
        )
        originals = [query for query in self.queries if not (replace_queries and generated.get(query))]
        queries = list(dict.fromkeys([*originals, *(text for texts in generated.values() for text in texts)]))
        expanded_count, query_count = len(generated), len(set(self.queries))
        if len(queries) > self.max_queries:
            self._report_query_limit(
                f"{self.name} may return at most {self.max_queries} queries, so the others were dropped."
            )
        elif expanded_count < query_count and any(generated.values()):
            self._report_query_limit(
                f"{self.name} was applied only to the first {expanded_count} of {query_count} queries (query limit)."
            )
        return queries[: self.max_queries]

    def _report_query_limit(self, message: str) -> None:
        self.search_run.add_notice(ServiceWarning(WarningCode.QUERY_LIMIT_REACHED, message))

    async def rewrite_each(
        self, task: str, *, max_tokens: int = MAX_TOKENS, extra_material: Mapping[str, Any] = NO_MATERIAL
    ) -> list[str]:
        """Let the chat model rewrite each query.

        Args:
            task: Instruction for the model; the material has the query as ``query``.
            max_tokens: Maximum number of tokens of an answer.
            extra_material: Further material, by name.

        Returns:
            The rewritten queries without duplicates. A query that the model did not answer stays unchanged.
        """
        generated = await self.generate_texts(task, max_texts=1, max_tokens=max_tokens, extra_material=extra_material)
        return list(dict.fromkeys((generated.get(query) or [query])[0] for query in self.queries))


OptionsT = TypeVar("OptionsT", bound=BaseModel)


class NoTransformerOptions(BaseModel, extra="forbid"):
    """Options of a transformer without options."""


@dataclass(frozen=True, slots=True)
class TransformResult:
    """Result of a transformer.

    Attributes:
        queries: Queries for the next step, at least one.
        reformulation: Reformulation of the conversation; None if the transformer makes none.
        analysis: Awaitable of the analysis, which may run while the search continues; None if there is none.
    """

    queries: Sequence[str]
    reformulation: Reformulation | None = None
    analysis: Awaitable[ConversationAnalysis] | None = None

    async def await_reformulation(self) -> Reformulation | None:
        """Return the reformulation with its analysis, and wait for the analysis if it is still running."""
        if self.reformulation is None or self.analysis is None:
            return self.reformulation
        analysis, related = await self.analysis
        return replace(self.reformulation, analysis=analysis, related=related)


@dataclass(frozen=True, slots=True)
class Transformer(Generic[OptionsT]):
    """Query transformer.

    Attributes:
        name: Name in a search or a knowledge base: small letters, digits, ``_`` and ``-``.
        description: One sentence for ``GET /v1/capabilities``.
        options: Pydantic model of the options, with ``extra="forbid"`` and a default for each field.
        run: Coroutine function that returns the queries for the next step.
        fans_out: Whether the transformer adds queries; such transformers run after all others.
        takes_prompt: Whether the transformer uses the prompt of the agent or the knowledge base.
        needs_corpus: Whether the transformer uses ``languages`` or ``fetch_preview_chunks``. If false, the transformer
            runs while the knowledge bases are still being selected.
        needs_preview: Whether the transformer uses ``fetch_preview_chunks``. If false, knowledge bases with the same
            language share one run in a search over several knowledge bases.
        varies_by_source: Whether the result depends on the language or the prompt of a single knowledge base. Such a
            transformer runs for each knowledge base of a search.
    """

    name: str
    description: str
    options: type[OptionsT]
    run: Callable[[TransformContext, OptionsT], Awaitable[TransformResult]]
    fans_out: bool = False
    takes_prompt: bool = False
    needs_corpus: bool = True
    needs_preview: bool = True
    varies_by_source: bool = False


def normalize_queries(texts: Sequence[str]) -> list[str]:
    """Put each query on one line, truncate it, remove NUL, and drop empty ones (pure)."""
    lines = (truncate_query(" ".join(text.replace("\0", " ").split())) for text in texts)
    return [line for line in lines if line]
