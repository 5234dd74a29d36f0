"""The vectors of a search's queries: given, kept from before, or made by the model in one batch."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from app.errors import AppError, InvalidInput
from app.inference.embedding import (
    Embedder,
    EmbeddingIdentity,
    EmbeddingMismatch,
    EmbeddingRejected,
    EmbeddingUnavailable,
)
from app.inference.embedding.estimating import estimate
from app.logging import get_logger
from app.quotas.service import QuotaService
from app.quotas.types import TokensSpent
from app.retrieval import shares
from app.retrieval.course import Course, reason_of, together
from app.retrieval.types import Query, SearchUnavailable

logger = get_logger(__name__)

Vector = npt.NDArray[np.float32]
Pay = Callable[[Sequence[str]], Awaitable[None]]
Embed = Callable[[Embedder, Sequence[Query]], Awaitable[Sequence[Vector]]]
KEPT = 1000
# A longer text is hardly ever asked twice.
LONGEST_KEPT = 512
NO_PICTURES = "image queries were left out"
FAILURES = (EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected, TimeoutError)


@dataclass(frozen=True, slots=True)
class KnownVectors:
    """The last queries' vectors, by tenant: else the time a search takes would tell what others have asked.

    One for all searches of a process.
    """

    _kept: LRUCache[tuple[UUID, EmbeddingIdentity, str], Vector] = field(default_factory=lambda: LRUCache(KEPT))

    def of(self, identity: EmbeddingIdentity, tenant_id: UUID, texts: Sequence[str]) -> dict[str, Vector]:
        """Those of the texts that are known; as used as those that were asked for just now."""
        kept = {text: self._kept.get((tenant_id, identity, text)) for text in texts}
        return {text: vector for text, vector in kept.items() if vector is not None}

    async def embed(
        self, embedder: Embedder, tenant_id: UUID, texts: Sequence[str], *, pay: Pay | None = None
    ) -> list[Vector]:
        """A vector for each text; the model is asked for those that are not known, when they are paid for.

        Raises as ``pay`` and ``embed_queries``.
        """
        known = self.of(embedder.identity, tenant_id, texts)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            if pay is not None:
                await pay(missing)
            made = dict(zip(missing, await embedder.embed_queries(missing), strict=True))
            known |= made
            # Copies: a row of the batch would keep all of it.
            short = {text: vector.copy() for text, vector in made.items() if len(text) <= LONGEST_KEPT}
            self._kept.update(((tenant_id, embedder.identity, text), vector) for text, vector in short.items())
        return [known[text] for text in texts]


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """Embeds the queries of one search."""

    known: KnownVectors
    quotas: QuotaService
    course: Course
    # Models that have not answered in this search: nobody waits for them a second time.
    _silent: set[EmbeddingIdentity] = field(default_factory=set)
    # What they do not take: a text that is too long for one, a picture that it cannot read.
    _refused: dict[EmbeddingIdentity, set[Query]] = field(default_factory=dict)

    async def of(
        self,
        embedder: Embedder,
        queries: Sequence[Query],
        *,
        required: bool,
        silent: str = "",
        without: str = "",
        partly: str = "",
    ) -> list[Vector | None]:
        """Their vectors in order; None where the model cannot answer in its share of the time, or may not be asked.

        Warnings say which, ``silent`` for the former, and what is searched ``without`` them, or ``partly``, where some
        are known from before. None, and a warning of its own, for what the model does not take. Raises
        EmbeddingUnavailable or TokensSpent, where they are ``required``; with ``partly``, where none is known.
        """
        words = [query for query in queries if query.vector is None and query.text is not None]
        pictures = [query for query in queries if query.picture is not None]
        made = self._known(embedder, words)
        told = (partly, NO_PICTURES) if made and partly else (without, without)
        required = required and told[0] == without
        for some, embed, without in zip(
            (words, pictures), (self._embed_words, self._embed_pictures), told, strict=True
        ):
            if missing := [query for query in some if query not in made]:
                asked = partial(self._ask_for_all, embed, embedder, missing)
                made |= await self._made(asked, required=required, silent=silent, without=without)
        return [made.get(query, query.vector) for query in queries]

    def _known(self, embedder: Embedder, queries: Sequence[Query]) -> dict[Query, Vector]:
        texts = {query: query.text for query in queries if query.text is not None}
        known = self.known.of(embedder.identity, self.quotas.db.tenant_id, list(texts.values()))
        return {query: known[text] for query, text in texts.items() if text in known}

    def nothing_to_ask(self, queries: Sequence[Query]) -> AppError:
        """What a search is told of whose queries have neither words to look for nor a vector."""
        if not set().union(*self._refused.values()).issuperset(queries):
            return SearchUnavailable()
        loc = queries[0].loc if len(queries) == 1 else ("body", "queries")
        return InvalidInput("The embedding model does not take what is searched for.", loc=loc)

    async def _made(
        self, embed: Callable[[], Awaitable[dict[Query, Vector]]], *, required: bool, silent: str, without: str
    ) -> dict[Query, Vector]:
        try:
            async with asyncio.timeout(self.course.remaining * shares.EMBED):
                return await embed()
        except TokensSpent as exc:
            if required:
                raise
            self.course.warn(f"{exc.message} {without[:1].upper()}{without[1:]}.")
            return {}
        except FAILURES as exc:
            if required:
                raise EmbeddingUnavailable from exc
            logger.warning("search.embedding_failed", error=exc)
            self.course.warn(f"{silent}: {without}.")
            self.course.drop("dense", reason_of(exc))
            return {}

    async def _ask_for_all(self, embed: Embed, embedder: Embedder, queries: Sequence[Query]) -> dict[Query, Vector]:
        """The vectors of all that the model takes: one that it refuses does not keep it from the others."""
        refused = self._refused.setdefault(embedder.identity, set())
        left = [query for query in queries if query not in refused]
        try:
            made = dict(zip(left, await self._ask(embed, embedder, left), strict=False)) if left else {}
        except EmbeddingRejected as exc:
            if "index" not in exc.fields:
                raise
            if len(left) > 1:  # there may be more of them: each by itself tells in one round
                alone = await together([self._ask_for_all(embed, embedder, [query]) for query in left])
                made = {query: vector for found in alone for query, vector in found.items()}
            else:
                logger.warning("search.query_refused", error=exc)
                made = {}
                refused.update(left)
        for query in filter(refused.__contains__, queries):
            place = ".".join(map(str, query.loc[1:]))
            self.course.warn(f"The embedding model does not take {place}: the dense lane was searched without it.")
            self.course.drop("dense", EmbeddingRejected.code)
        return made

    async def _ask(self, embed: Embed, embedder: Embedder, queries: Sequence[Query]) -> Sequence[Vector]:
        if embedder.identity in self._silent:
            raise EmbeddingUnavailable
        try:
            return await embed(embedder, queries)
        except (EmbeddingUnavailable, asyncio.CancelledError):  # also when its time is over
            self._silent.add(embedder.identity)
            raise

    async def _embed_words(self, embedder: Embedder, queries: Sequence[Query]) -> Sequence[Vector]:
        texts = [query.text for query in queries if query.text is not None]
        return await self.known.embed(embedder, self.quotas.db.tenant_id, texts, pay=self._pay)

    async def _pay(self, texts: Sequence[str]) -> None:
        await self.quotas.tokens.require()
        self.quotas.count(query_tokens=sum(map(estimate, texts)))

    async def _embed_pictures(self, embedder: Embedder, queries: Sequence[Query]) -> Sequence[Vector]:
        files = [query.picture for query in queries if query.picture is not None]
        if embedder.pictures is None:  # its knowledge bases are searched by the other queries alone
            return []
        await self.quotas.tokens.require()
        made = await embedder.pictures.embed_pictures(files, interactive=True)
        self.quotas.count(query_tokens=made.tokens)
        return list(made.vectors)


def usable(queries: Sequence[Query], course: Course, *, dense: bool, pictures: bool) -> list[Query]:
    """Those that can be looked for; the others are told of. Raises InvalidInput when there is none left."""
    left = [query for query in queries if query.picture is None or (pictures and dense)]
    if len(left) < len(queries):
        reason = "the strategy looks for words" if not dense else "the embedding model takes only texts"
        course.warn(f"Image queries were left out: {reason}.")
    asked = left if dense else [query for query in left if query.text is not None]
    if len(asked) < len(left):
        course.warn("Queries without words were left out: the strategy looks for words.")
    if queries and not asked:
        raise none_left()
    return asked


def none_left() -> InvalidInput:
    """What a search is refused with of which nothing can be looked for."""
    return InvalidInput("None of the queries can be searched for here.", loc=("body", "queries"))


def check_dimensions(queries: Sequence[Query], sizes: Sequence[int]) -> None:
    """A given vector has those of at least one index. Raises InvalidInput."""
    for query in queries:
        if query.vector is not None and len(query.vector) not in sizes:
            known = " or ".join(map(str, sorted(set(sizes))))
            message = f"It has {len(query.vector)} dimensions; what is searched has {known}."
            raise InvalidInput(message, loc=(*query.loc, "vector"))


def tell_dimensions(queries: Sequence[Query], course: Course, *, name: str, size: int) -> None:
    """Warn of given vectors that the index of this size, of what is called ``name``, cannot be asked for."""
    for query in queries:
        if query.vector is not None and len(query.vector) != size:
            told = f"Query vectors of {len(query.vector)} dimensions were left out in {name}"
            course.warn(f"{told}: its index has {size}.")
