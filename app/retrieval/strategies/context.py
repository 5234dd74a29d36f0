"""What a strategy is, and what it is given: the queries, the places to look, and one call that finds."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Self, TypeVar
from uuid import UUID

from pydantic import BaseModel

from app.filters import CompiledFilter
from app.inference.embedding import Embedder, EmbeddingIdentity
from app.knowledge_bases.types import KnowledgeBaseView
from app.retrieval.course import Course, together
from app.retrieval.finder import Finder
from app.retrieval.lanes import Comparison, LaneResults, Ranked, Ranking, collect
from app.retrieval.queries import QueryVectors, Vector
from app.retrieval.repository import LaneCall, LaneList
from app.retrieval.types import Hit, NamedTransformer, Query, Searched
from app.retrieval.words import NONE, Place, Terms, terms_of

WORDS_ALONE = "only the lexical lane was searched"
BESIDE_VECTORS = "words were looked for in the lexical lane alone"
VECTORS_ALONE = "only the vectors that were given were searched for"
NEW_WORDS = "words without a kept vector were looked for in the lexical lane alone"
ONLY_KNOWN = "only what has a kept or a given vector was searched for"
NO_COSINES = "similarities are not known"
NOTHING = "nothing was searched"
NO_WORDS = "The queries have no words to look for: stop words, signs and symbols are none."


@dataclass(frozen=True, slots=True)
class Target:
    """A knowledge base to search, the levels of it that are seen, and the filter: as understood, and compiled.

    ``embedder`` makes vectors for it, None where its model is not configured. What is found counts ``scale`` times.
    ``narrowed``: for a key that is narrowed to a user.
    """

    kb: KnowledgeBaseView
    embedder: Embedder | None
    scopes: Sequence[UUID]
    understood: Mapping[str, Any] | None
    filter: CompiledFilter
    scale: float = 1.0
    narrowed: bool = False

    @property
    def searched(self) -> Searched:
        """What the finder has to know of it."""
        return Searched(self.kb.row.tenant_id, self.kb.row.name, self.scale)

    @property
    def is_slow(self) -> bool:
        """A large knowledge base under a filter: the lanes read much that does not pass."""
        return self.kb.index.vector_index == "hnsw" and self.filter.narrows

    @property
    def model(self) -> EmbeddingIdentity:
        """What made its vectors: only those of the same can be compared."""
        return self.embedder.identity if self.embedder else EmbeddingIdentity.stored(self.kb.index.identity)

    def fitting(self, vectors: Sequence[Vector | None]) -> list[Vector | None]:
        """Those that can be compared with its own, else None: of a given one nothing but its length is known."""
        return [one if one is not None and len(one) == self.kb.index.dim else None for one in vectors]


@dataclass(frozen=True, slots=True)
class SearchContext:
    """One search on its way: at least one query and one target."""

    finder: Finder
    vectors: QueryVectors
    course: Course
    queries: Sequence[Query]
    targets: Sequence[Target]

    def reading(self, rows: int) -> Self:
        """The same, where at least so many hits are read: for a strategy that orders them anew."""
        return replace(self, finder=self.finder.reading(max(rows, self.finder.top_k)))

    async def find(
        self,
        rank: Callable[[LaneResults], Ranked],
        *,
        dense: bool = True,
        lexical: bool = True,
        cosines: bool = True,
    ) -> list[Hit]:
        """Ask both lanes for every query in every target, let ``rank`` make one list of it, and read the best.

        Without ``cosines`` ``rank`` need not know those of what the lexical lane alone has found, and keeps its order.
        Where one lane cannot answer, the other does and a warning says so. Raises SearchUnavailable when none can,
        EmbeddingUnavailable when only the dense lane was asked for.
        """
        vectors = await self._vectors(dense=dense, lexical=lexical)
        terms = iter(await self._terms() if lexical else ())
        # What the lexical lane alone has found comes behind all that this lane has above it: no more than ``top_k`` of
        # them are read. Where there are ties, or some are gone, what a hit lacks is had as it is read.
        few = not cosines and len(self.queries) * len(self.targets) == 1 and self.finder.score_threshold is None
        comparisons = self._comparisons(vectors) if len(self.queries) > 1 else ()
        make = partial(self._call, comparisons=comparisons, dense=dense, cosines=self.finder.top_k if few else None)
        calls = [
            make(target, of_target[number], next(terms) if lexical and query.text else NONE)
            for number, query in enumerate(self.queries)
            for target, of_target in zip(self.targets, vectors, strict=True)
        ]
        if not any(call.asks_something for call in calls):
            if dense:
                # No vector, and no word to look for: that nothing was found says nothing.
                raise self.vectors.nothing_to_ask(self.queries)
            if self.queries and any(target.kb.languages for target in self.targets):  # without, nothing is there
                self.course.remark(NO_WORDS)
            return []

        extra = frozenset(number for number in range(len(calls)) if self.queries[number // len(self.targets)].extra)
        models = list(dict.fromkeys(target.model for target in self.targets))
        numbers = [models.index(target.model) for target in self.targets]

        vector = calls[0].vector if few else None

        def ranking(lists: Sequence[LaneList]) -> Ranking:
            found = collect(calls, lists, queries=len(self.queries), models=numbers)
            ranked = self.finder.scaled(rank(found))
            return Ranking(found, ranked, fused=dense and lexical, vector=vector, comparisons=comparisons)

        return await self.finder.find(calls, ranking, extra=extra)

    async def _vectors(self, *, dense: bool, lexical: bool) -> Sequence[Sequence[Vector | None]]:
        """For each target the queries' vectors; without the dense lane a threshold still wants its cosines.

        Every model is asked once, and all at the same time.
        """
        if not dense and self.finder.score_threshold is None:
            return [[None] * len(self.queries)] * len(self.targets)
        embedders = {one.embedder.identity: one.embedder for one in self.targets if one.embedder is not None}
        given = [query.vector for query in self.queries]
        # Of several the others are enough, and so is a vector that was given.
        required = not lexical and len(embedders) == 1 and all(vector is None for vector in given)
        with self.course.timing("embed"):
            calls = [
                self.vectors.of(
                    one, self.queries, required=required, **self._silence(model, dense=dense, lexical=lexical)
                )
                for model, one in embedders.items()
            ]
            made = dict(zip(embedders, await together(calls), strict=True))
        return [target.fitting(made.get(target.model, given)) for target in self.targets]

    def _comparisons(self, vectors: Sequence[Sequence[Vector | None]]) -> list[Comparison]:
        """For each model the vectors that its indexes can be compared with, where there are some.

        None where it did not answer: the best of the rest is not the best of all, and a threshold is not for it.
        """
        words = [number for number, query in enumerate(self.queries) if query.text is not None]
        made: dict[EmbeddingIdentity, Comparison] = {}
        for target, of_target in zip(self.targets, vectors, strict=True):
            others = made[target.model].indexes if target.model in made else frozenset()
            given = [vector for vector in of_target if vector is not None]
            if given and all(of_target[number] is not None for number in words):
                made[target.model] = Comparison(others | {target.kb.index.id.bytes}, given)
        return list(made.values())

    def _silence(self, model: EmbeddingIdentity, *, dense: bool, lexical: bool) -> dict[str, str]:
        """What is told where this model does not answer, and what is done then; among others it is named."""
        targets = [target for target in self.targets if target.model == model]
        given = [query.vector for query in self.queries]
        some = any(vector is not None for target in targets for vector in target.fitting(given))
        alone = (BESIDE_VECTORS if some else WORDS_ALONE) if lexical else (VECTORS_ALONE if some else NOTHING)
        told = {"without": alone, "partly": NEW_WORDS if lexical else ONLY_KNOWN} if dense else {"without": NO_COSINES}
        if len(targets) == len(self.targets):
            return {"silent": "The embedding model is not answering", **told}
        names = ", ".join(dict.fromkeys(target.kb.called for target in targets))
        told = {name: f"{what} in {names}" for name, what in told.items()}
        return {"silent": f"The embedding model {model.model!r} is not answering", **told}

    async def _terms(self) -> list[Terms]:
        """Of the queries with words, in each target."""
        texts = [query.text for query in self.queries if query.text]
        places = [Place(target.kb.languages, target.kb.index.id) for target in self.targets]
        return await terms_of(texts, places, self.course)

    def _call(
        self,
        target: Target,
        vector: Vector | None,
        terms: Terms,
        *,
        comparisons: Sequence[Comparison],
        dense: bool,
        cosines: int | None,
    ) -> LaneCall:
        row, index = target.kb.row, target.kb.index
        # Of several queries the nearest counts: where not all of them are known, none is a measure.
        others = next((one.vectors for one in comparisons if index.id.bytes in one.indexes), ())
        measured = not dense and vector is not None and (len(self.queries) == 1 or bool(others))
        return LaneCall(
            tenant_id=row.tenant_id,
            index_id=index.id,
            dim=index.dim,
            vector=vector,
            term_ids=terms.ids,
            keys=terms.keys,
            scopes=target.scopes,
            filter=target.filter,
            only_similarity=not dense,
            cosines=cosines,
            threshold=self.finder.score_threshold if measured else None,
            others=others,
            slow=dense and vector is not None and bool(terms.ids) and target.is_slow,
            narrowed=target.narrowed,
        )


OptionsT = TypeVar("OptionsT", bound=BaseModel)


class NoOptions(BaseModel, extra="forbid"):
    """A strategy without options."""


def _no_transformers(_options: BaseModel) -> Sequence[NamedTransformer]:
    return ()


def searched_in(targets: Sequence[Target]) -> dict[bytes, Searched]:
    """The knowledge bases by their search index."""
    return {one.kb.index.id.bytes: one.searched for one in targets}


@dataclass(frozen=True, slots=True)
class Strategy(Generic[OptionsT]):
    """A way to search, by name; ``run`` returns hits best first, ties by document and chunk_index.

    ``transformers`` says which make its queries, after those that the search names: with them it fans out.
    """

    name: str
    description: str
    options: type[OptionsT]
    run: Callable[[SearchContext, OptionsT], Awaitable[list[Hit]]]
    transformers: Callable[[OptionsT], Sequence[NamedTransformer]] = _no_transformers
