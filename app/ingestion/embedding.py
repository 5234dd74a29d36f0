"""Embed the chunks of a document in slices, whose vectors are checkpointed so that a crash does not lose them."""

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
"""Number of texts in one call of the embedder."""

MAX_INTERACTIVE_TEXTS = 4
"""Maximum number of urgent texts that are embedded with the priority of queries: some 0.3 seconds on a CPU."""

MAX_REJECTED_TEXTS = 10
"""Maximum number of texts of a document that the embedding model may refuse; more of them indicate another fault."""

_IDENTITY_NAMESPACE = UUID("0d9f8a6e-5a55-5f0e-8f3b-3b1f5d0f8f1a")


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Number of embedded texts and of their tokens."""

    inputs: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class EmbeddedChunks:
    """Vectors of the chunks of a document.

    Attributes:
        vectors: One vector for each chunk, of the shape (chunks, dimensions).
        rejected: Positions of the chunks that the model refused; their vectors are zero.
        unrecorded_usage: Usage of the last slice if it is not recorded yet.
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
    """Embed the chunks of a document that have no vector yet.

    Vectors that came with the upload and vectors that an earlier attempt checkpointed are reused. Each slice is
    checkpointed and its usage recorded in one transaction. A quick last slice is the exception: the transaction that
    stores the version follows immediately, and records the usage. A slow last slice is checkpointed, because its
    progress was reported, and a later attempt therefore looks for checkpoints.

    Args:
        db: Database of the tenant.
        document_id: The document.
        chunked: Its chunks.
        embedder: Embedder of the knowledge base.
        progress: Progress of the version.
        budget: Daily token budget of the tenant and the API key; without limits by default.
        is_first_attempt: Whether no earlier attempt exists. A small document then needs no query for checkpoints.
        urgent: Whether at most four texts are embedded with the priority of queries, ahead of bulk work.

    Returns:
        One vector for each chunk.

    Raises:
        EmbeddingUnavailable: The model does not answer; a retry may help.
        EmbeddingMismatch: The vectors have a wrong number or dimension.
        EmbeddingRejected: The model refuses all texts, or more than ten.
        VersionSuperseded: The version is no longer needed.
        JobPreempted: The job must give its place to another tenant.
        DailyTokenLimitReached: The budget has no tokens left for the next slice.
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
    """Record ``usage`` in a separate transaction if the block fails. If it succeeds, the block itself has recorded it.

    Args:
        db: Database of the tenant.
        embedder: Embedder of the knowledge base.
        usage: Usage that the block records.
        key_id: API key of the upload.
    """
    try:
        yield
    except BaseException:  # a cancelled job has used the tokens too
        with suppress(AppError):  # the failure may be one of the database
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
    """Add embedding usage and stored chunks to the usage of the day.

    Args:
        session: Session of the transaction that stores the chunks.
        db: Database of the tenant.
        embedder: Embedder of the knowledge base.
        usage: Texts and tokens that were embedded.
        key_id: API key of the upload.
        chunks: Number of chunks that the transaction stores.
    """
    if usage != TokenUsage() or chunks:
        await CheckpointRepository(session, db.tenant_id).record_embedding_usage(
            embedder.identity.model, inputs=usage.inputs, tokens=usage.tokens, key_id=key_id, chunks=chunks
        )


async def record_chunker_usage(budget: TokenBudget, embedder: Embedder, tokens: int) -> None:
    """Record the tokens that a chunker embedded to find its boundaries. They count as tokens, but not as inputs."""
    async with budget.db.transaction() as session:
        await CheckpointRepository(session, budget.db.tenant_id).record_embedding_usage(
            embedder.identity.model, inputs=0, tokens=tokens, key_id=budget.key_id
        )


def derive_checkpoint_key(identity: EmbeddingIdentity) -> UUID:
    """Derive the key of checkpoints from an embedding identity, so that one model never gets vectors of another."""
    return uuid5(_IDENTITY_NAMESPACE, repr(identity))


def _fill_checkpointed(
    vectors: Vectors, pending: Sequence[int], hashes: Sequence[bytes], checkpointed: Mapping[bytes, Vectors]
) -> list[int]:
    """Fill in the checkpointed vectors, and return the positions without a checkpointed vector."""
    for position in pending:
        if hashes[position] in checkpointed:
            vectors[position] = checkpointed[hashes[position]]
    return [position for position in pending if hashes[position] not in checkpointed]


async def _embed_slice(
    vectors: Vectors, positions: Sequence[int], texts: Sequence[str], embed: EmbedFunction, rejected: set[int]
) -> int:
    """Embed the texts at ``positions`` into ``vectors``, add refused positions to ``rejected``, return the tokens."""
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
