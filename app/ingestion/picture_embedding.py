"""Pictures to vectors, where the embedding model takes them: they are found by what they show."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID, uuid5

from app.db.session import TenantDatabase
from app.inference.embedding import EmbeddingIdentity, EmbeddingRejected, PictureEmbedder, PictureFile, Vectors
from app.inference.embedding.estimating import batches
from app.ingestion.checkpoints import CheckpointRepository
from app.ingestion.media import MOST_FAILURES, digest
from app.ingestion.passages import Passages
from app.ingestion.progress import Progress
from app.ingestion.types import Picture
from app.quotas.tokens import TokenBudget

SLICE = 16
SLICE_BYTES = 8 * 1024 * 1024
_IDENTITIES = UUID("a1b7c9f2-7d0e-5b64-8e35-0c2f4a6d9e17")


@dataclass(frozen=True, slots=True)
class PictureSource:
    """A picture by its hash and its size in bytes; ``read`` gives it when its turn comes, None where it is gone."""

    sha256: bytes
    size: int
    read: Callable[[], Awaitable[Picture | None]]


@dataclass(frozen=True, slots=True)
class PictureEmbedding:
    """Embeds the pictures of one document; what was paid for survives a crash, by the hash of the picture."""

    db: TenantDatabase
    document_id: UUID
    embedder: PictureEmbedder
    identity: EmbeddingIdentity
    progress: Progress
    budget: TokenBudget

    async def embed(self, passages: Passages, sources: Mapping[int, PictureSource]) -> Passages:
        """The passages, with a vector for each that is a picture; ``sources`` by the pictures' numbers.

        Where a long description is several chunks, the first has the picture's vector. The others are texts; so is,
        with a warning, a picture that the model refuses, or that is gone.
        Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected, TokensSpent, Superseded, and what reading a
        source raises.
        """
        shown = passages.shown
        firsts = {
            at: sources[number] for at, number in shown.items() if number in sources and shown.get(at - 1) != number
        }
        if not firsts:
            return passages
        pictures = {one.sha256: one for one in firsts.values()}
        vectors = await self._vectors(pictures)
        found = {at: vectors[one.sha256].tolist() for at, one in firsts.items() if one.sha256 in vectors}
        warnings = [*passages.warnings, *_refusal(len(pictures) - len(vectors), len(pictures))]
        return replace(passages, vectors={**passages.vectors, **found}, warnings=warnings)

    async def _vectors(self, pictures: Mapping[bytes, PictureSource]) -> dict[bytes, Vectors]:
        """Those that an earlier attempt checkpointed, the rest made now, as far as the model takes the pictures."""
        identity = pictures_key(self.identity)
        async with self.db.transaction() as session:
            vectors = await CheckpointRepository(session, self.db.tenant_id).find(identity, list(pictures))
        waiting = [sha256 for sha256 in pictures if sha256 not in vectors]
        refused = tokens = 0
        sizes = [max(pictures[sha256].size, SLICE_BYTES // SLICE) for sha256 in waiting]
        for start, end in batches(sizes, most=SLICE_BYTES):
            if refused >= MOST_FAILURES:
                break
            self.progress.slice("embedding", done=start, total=len(waiting), unit="pictures", tokens=tokens)
            await self.budget.require()
            read = {sha256: await pictures[sha256].read() for sha256 in waiting[start:end]}
            files = {sha256: PictureFile(one.media_type, one.data) for sha256, one in read.items() if one is not None}
            made, spent = await self._embed(files)
            async with self.db.transaction() as session:
                repository = CheckpointRepository(session, self.db.tenant_id)
                await repository.add(identity, self.document_id, made, version=self.progress.version)
                await repository.book_embedding(
                    self.identity.model, passages=len(made), tokens=spent, key_id=self.budget.key_id
                )
            vectors |= made
            refused, tokens = refused + len(files) - len(made), tokens + spent
        return vectors

    async def _embed(self, pictures: Mapping[bytes, PictureFile]) -> tuple[dict[bytes, Vectors], int]:
        """The vectors of those that the model takes, and what they cost in tokens."""
        left, spent = list(pictures), 0
        while left:
            try:
                embedded = await self.embedder.embed_pictures([pictures[sha256] for sha256 in left])
            except EmbeddingRejected as exc:
                position = exc.fields.get("index")
                if position is None:
                    raise
                left.pop(position)
                spent += exc.fields.get("tokens", 0)
            else:
                return dict(zip(left, embedded.vectors, strict=True)), spent + embedded.tokens
        return {}, spent


def pictures_key(identity: EmbeddingIdentity) -> UUID:
    """What checkpoints of pictures are told apart by, also from those of texts.

    The model's identity and no more: the form in which pictures travel does not change what is made of them.
    """
    return uuid5(_IDENTITIES, repr(identity))


def at_hand(pictures: Mapping[int, Picture]) -> dict[int, PictureSource]:
    """Pictures that a parser has just given, by their numbers."""
    return {
        number: PictureSource(digest(picture), len(picture.data), partial(_give, picture))
        for number, picture in pictures.items()
    }


async def _give(picture: Picture) -> Picture:
    return picture


def _refusal(missing: int, total: int) -> list[str]:
    """For the document's owner."""
    if not missing:
        return []
    return [f"The embedding model did not take {missing} of {total} pictures: they are found by their words alone."]
