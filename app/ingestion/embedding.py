"""Passages to vectors, a slice at a time: progress is told, costs are booked, and what is paid for survives a crash."""

import hashlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID, uuid5

import numpy as np

from app.db.session import Session, TenantDatabase
from app.errors import AppError
from app.inference.embedding import Embedder, EmbeddingIdentity, EmbeddingRejected, Embeddings, Vectors
from app.ingestion.checkpoints import CheckpointRepository
from app.ingestion.passages import Passages
from app.ingestion.progress import INTERVAL_SECONDS, Progress
from app.quotas.tokens import TokenBudget
from app.quotas.types import NO_KEY

Embed = Callable[[Sequence[str]], Awaitable[Embeddings]]

SLICE = 64
# What is urgent stands beside queries, if it is no more than so many passages: a few tenths of a second on a CPU.
FEW = 4
# More than so many passages of one document refused by the embedding model, and something else is wrong.
MOST_REFUSED = 10
_IDENTITIES = UUID("0d9f8a6e-5a55-5f0e-8f3b-3b1f5d0f8f1a")


@dataclass(frozen=True, slots=True)
class Spent:
    """What passages cost."""

    passages: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Embedded:
    """One vector a passage, shape (passages, dimensions); those of ``refused`` positions are zero: they have none.

    ``unbooked`` is what the last slice cost, where that is not booked yet.
    """

    vectors: Vectors
    refused: Collection[int]
    unbooked: Spent


async def embed_passages(
    db: TenantDatabase,
    document_id: UUID,
    passages: Passages,
    *,
    embedder: Embedder,
    progress: Progress,
    budget: TokenBudget | None = None,
    afresh: bool = False,
    urgent: bool = False,
) -> Embedded:
    """The passages' vectors: those that came with it, those that an earlier attempt checkpointed, the rest made now.

    Every slice is checkpointed and booked, but a quick one at the end: behind it comes the version's own transaction.
    A slow one has been told of, so that a later attempt finds the document's status changed. ``afresh`` says that it is
    not: no earlier attempt can have left anything. A few texts that are ``urgent`` do not stand behind bulk work.
    Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected, Superseded, HandedBack; TokensSpent before a
    slice that the ``budget`` has nothing left for.
    """
    texts = passages.texts
    budget = budget or TokenBudget(db)
    vectors = np.zeros((len(texts), embedder.identity.dimensions), np.float32)
    for position, vector in passages.vectors.items():
        vectors[position] = np.asarray(vector, np.float64) / math.hypot(*vector)
    refused: set[int] = set()
    hashes = [hashlib.sha256(text.encode()).digest() for text in texts]
    identity = identity_key(embedder.identity)
    waiting = [position for position in range(len(texts)) if position not in passages.vectors]
    if len(waiting) > SLICE or not afresh:
        async with db.transaction() as session:
            found = await CheckpointRepository(session, db.tenant_id).find(identity, hashes)
        waiting = _fill(vectors, waiting, hashes, found)
    done, tokens, last = len(texts) - len(waiting), 0, Spent()
    embed = partial(embedder.embed_documents, interactive=urgent and len(waiting) <= FEW)
    for start in range(0, len(waiting), SLICE):
        progress.slice("embedding", done=done, total=len(texts), unit="chunks", tokens=tokens)
        positions = waiting[start : start + SLICE]
        await budget.require()
        begun = time.monotonic()
        spent = await _embed_slice(vectors, positions, texts, embed, refused)
        kept = [position for position in positions if position not in refused]
        done, tokens, last = done + len(positions), tokens + spent, Spent(len(kept), spent)
        if start + SLICE < len(waiting) or time.monotonic() - begun > INTERVAL_SECONDS:
            async with db.transaction() as session:
                repository = CheckpointRepository(session, db.tenant_id)
                made = {hashes[at]: vectors[at] for at in kept}
                await repository.add(identity, document_id, made, version=progress.version)
                await repository.book_embedding(
                    embedder.identity.model, passages=last.passages, tokens=last.tokens, key_id=budget.key_id
                )
            last = Spent()
    return Embedded(vectors, frozenset(refused), last)


@asynccontextmanager
async def booked_with(
    db: TenantDatabase, embedder: Embedder, spent: Spent, *, key_id: UUID = NO_KEY
) -> AsyncIterator[None]:
    """The block's own transaction books what was ``spent``; where the block fails, it is booked all the same."""
    try:
        yield
    except BaseException:  # a cancellation costs nothing less
        with suppress(AppError):  # the database may be what failed
            async with db.transaction() as session:
                await book(session, db, embedder, spent, key_id=key_id)
        raise


async def book(
    session: Session,
    db: TenantDatabase,
    embedder: Embedder,
    spent: Spent,
    *,
    key_id: UUID = NO_KEY,
    chunks: int = 0,
) -> None:
    """Add to the day's costs, if there are any, and the ``chunks`` that were stored."""
    if spent != Spent() or chunks:
        await CheckpointRepository(session, db.tenant_id).book_embedding(
            embedder.identity.model, passages=spent.passages, tokens=spent.tokens, key_id=key_id, chunks=chunks
        )


async def book_sentences(budget: TokenBudget, embedder: Embedder, tokens: int) -> None:
    """Tokens that a chunker spent to find its boundaries: no passage came of them, but they cost the same."""
    async with budget.db.transaction() as session:
        await CheckpointRepository(session, budget.db.tenant_id).book_embedding(
            embedder.identity.model, passages=0, tokens=tokens, key_id=budget.key_id
        )


def identity_key(identity: EmbeddingIdentity) -> UUID:
    """What checkpoints are told apart by: vectors of one model never serve another."""
    return uuid5(_IDENTITIES, repr(identity))


def _fill(
    vectors: Vectors, waiting: Sequence[int], hashes: Sequence[bytes], found: Mapping[bytes, Vectors]
) -> list[int]:
    """Put in what is known; the positions that still wait."""
    for position in waiting:
        if hashes[position] in found:
            vectors[position] = found[hashes[position]]
    return [position for position in waiting if hashes[position] not in found]


async def _embed_slice(
    vectors: Vectors, positions: Sequence[int], texts: Sequence[str], embed: Embed, refused: set[int]
) -> int:
    """Fill in these positions; the few that the model refuses are noted instead. Returns what it cost in tokens."""
    left, spent = list(positions), 0
    while left:
        try:
            embedded = await embed([texts[at] for at in left])
        except EmbeddingRejected as exc:
            position = exc.fields.get("index")
            if position is None or len(refused) == MOST_REFUSED or len(refused) + 1 == len(texts):
                raise
            refused.add(left.pop(position))
            spent += exc.fields.get("tokens", 0)
        else:
            vectors[left] = embedded.vectors
            return spent + embedded.tokens
    return spent
