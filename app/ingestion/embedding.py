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
from app.ingestion.embedding_text import ChunkedDocument
from app.ingestion.progress import REPORT_INTERVAL_SECONDS, IngestionProgress
from app.quotas.token_budget import TokenBudget
from app.quotas.types import NO_KEY

EmbedFunction = Callable[[Sequence[str]], Awaitable[Embeddings]]

SLICE_SIZE = 64
# What is urgent stands beside queries, if it is no more than so many passages: a few tenths of a second on a CPU.
MAX_INTERACTIVE_TEXTS = 4
# More than so many passages of one document refused by the embedding model, and something else is wrong.
MAX_REJECTED_TEXTS = 10
_IDENTITY_NAMESPACE = UUID("0d9f8a6e-5a55-5f0e-8f3b-3b1f5d0f8f1a")


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What passages cost."""

    inputs: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class EmbeddedChunks:
    """One vector a passage, shape (passages, dimensions); those of ``rejected`` positions are zero: they have none.

    ``unrecorded_usage`` is what the last slice cost, where that is not booked yet.
    """

    vectors: Vectors
    rejected: Collection[int]
    unrecorded_usage: TokenUsage


async def embed_chunks(
    db: TenantDatabase,
    document_id: UUID,
    chunked: ChunkedDocument,
    *,
    embedder: Embedder,
    progress: IngestionProgress,
    budget: TokenBudget | None = None,
    is_first_attempt: bool = False,
    urgent: bool = False,
) -> EmbeddedChunks:
    """The passages' vectors: those that came with it, those that an earlier attempt checkpointed, the rest made now.

    Every slice is checkpointed and booked, but a quick one at the end: behind it comes the version's own transaction. A
    slow one has been told of, so that a later attempt finds the document's status changed. With ``is_first_attempt`` no
    earlier attempt can have left anything. A few texts that are ``urgent`` do not stand behind bulk work. Raises
    EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected, VersionSuperseded, JobPreempted; DailyTokenLimitReached
    before a slice that the ``budget`` has nothing left for.
    """
    texts = chunked.texts
    budget = budget or TokenBudget(db)
    vectors = np.zeros((len(texts), embedder.identity.dimensions), np.float32)
    for position, vector in chunked.vectors.items():
        vectors[position] = np.asarray(vector, np.float64) / math.hypot(*vector)
    rejected: set[int] = set()
    hashes = [hashlib.sha256(text.encode()).digest() for text in texts]
    identity = derive_checkpoint_key(embedder.identity)
    pending = [position for position in range(len(texts)) if position not in chunked.vectors]
    if len(pending) > SLICE_SIZE or not is_first_attempt:
        async with db.transaction() as session:
            checkpointed = await CheckpointRepository(session, db.tenant_id).find(identity, hashes)
        pending = _fill_checkpointed(vectors, pending, hashes, checkpointed)
    done, tokens, unrecorded = len(texts) - len(pending), 0, TokenUsage()
    embed = partial(embedder.embed_documents, interactive=urgent and len(pending) <= MAX_INTERACTIVE_TEXTS)
    for start in range(0, len(pending), SLICE_SIZE):
        progress.report_slice("embedding", done=done, total=len(texts), unit="chunks", tokens=tokens)
        positions = pending[start : start + SLICE_SIZE]
        await budget.check()
        started_at = time.monotonic()
        slice_tokens = await _embed_slice(vectors, positions, texts, embed, rejected)
        accepted = [position for position in positions if position not in rejected]
        done, tokens, unrecorded = done + len(positions), tokens + slice_tokens, TokenUsage(len(accepted), slice_tokens)
        if start + SLICE_SIZE < len(pending) or time.monotonic() - started_at > REPORT_INTERVAL_SECONDS:
            async with db.transaction() as session:
                repository = CheckpointRepository(session, db.tenant_id)
                new_vectors = {hashes[at]: vectors[at] for at in accepted}
                await repository.add(identity, document_id, new_vectors, version=progress.version)
                await repository.record_embedding_usage(
                    embedder.identity.model, inputs=unrecorded.inputs, tokens=unrecorded.tokens, key_id=budget.key_id
                )
            unrecorded = TokenUsage()
    return EmbeddedChunks(vectors, frozenset(rejected), unrecorded)


@asynccontextmanager
async def record_usage_on_failure(
    db: TenantDatabase, embedder: Embedder, usage: TokenUsage, *, key_id: UUID = NO_KEY
) -> AsyncIterator[None]:
    """Record ``usage`` in the block's own transaction, or in another one if the block fails."""
    try:
        yield
    except BaseException:  # a cancellation costs nothing less
        with suppress(AppError):  # the database may be what failed
            async with db.transaction() as session:
                await record_usage(session, db, embedder, usage, key_id=key_id)
        raise


async def record_usage(
    session: Session,
    db: TenantDatabase,
    embedder: Embedder,
    usage: TokenUsage,
    *,
    key_id: UUID = NO_KEY,
    chunks: int = 0,
) -> None:
    """Add to the day's costs, if there are any, and the ``chunks`` that were stored."""
    if usage != TokenUsage() or chunks:
        await CheckpointRepository(session, db.tenant_id).record_embedding_usage(
            embedder.identity.model, inputs=usage.inputs, tokens=usage.tokens, key_id=key_id, chunks=chunks
        )


async def record_chunker_usage(budget: TokenBudget, embedder: Embedder, tokens: int) -> None:
    """Tokens that a chunker spent to find its boundaries: no passage came of them, but they cost the same."""
    async with budget.db.transaction() as session:
        await CheckpointRepository(session, budget.db.tenant_id).record_embedding_usage(
            embedder.identity.model, inputs=0, tokens=tokens, key_id=budget.key_id
        )


def derive_checkpoint_key(identity: EmbeddingIdentity) -> UUID:
    """What checkpoints are told apart by: vectors of one model never serve another."""
    return uuid5(_IDENTITY_NAMESPACE, repr(identity))


def _fill_checkpointed(
    vectors: Vectors, pending: Sequence[int], hashes: Sequence[bytes], checkpointed: Mapping[bytes, Vectors]
) -> list[int]:
    """Put in what is known; the positions that still wait."""
    for position in pending:
        if hashes[position] in checkpointed:
            vectors[position] = checkpointed[hashes[position]]
    return [position for position in pending if hashes[position] not in checkpointed]


async def _embed_slice(
    vectors: Vectors, positions: Sequence[int], texts: Sequence[str], embed: EmbedFunction, rejected: set[int]
) -> int:
    """Fill in these positions; the few that the model refuses are noted instead. Returns what it cost in tokens."""
    remaining, token_count = list(positions), 0
    while remaining:
        try:
            embedded = await embed([texts[at] for at in remaining])
        except EmbeddingRejected as exc:
            position = exc.fields.get("index")
            if position is None or len(rejected) == MAX_REJECTED_TEXTS or len(rejected) + 1 == len(texts):
                raise
            rejected.add(remaining.pop(position))
            token_count += exc.fields.get("tokens", 0)
        else:
            vectors[remaining] = embedded.vectors
            return token_count + embedded.tokens
    return token_count
