"""Pictures to vectors, where the embedding model takes them: they are found by what they show."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID, uuid5

from app.db.session import TenantDatabase
from app.inference.embedding import EmbeddingIdentity, EmbeddingRejected, PictureEmbedder, PictureFile, Vectors
from app.inference.embedding.estimating import batches
from app.ingestion.checkpoints import CheckpointRepository
from app.ingestion.media import MOST_FAILURES, digest
from app.ingestion.passages import Passages
from app.ingestion.progress import Progress
from app.quotas.tokens import TokenBudget

SLICE = 16
SLICE_BYTES = 8 * 1024 * 1024
_IDENTITIES = UUID("a1b7c9f2-7d0e-5b64-8e35-0c2f4a6d9e17")


@dataclass(frozen=True, slots=True)
class PictureEmbedding:
    """Embeds the pictures of one document; what was paid for survives a crash, by the hash of the picture."""

    db: TenantDatabase
    document_id: UUID
    embedder: PictureEmbedder
    identity: EmbeddingIdentity
    progress: Progress
    budget: TokenBudget

    async def embed(self, passages: Passages) -> Passages:
        """The passages, with a vector for each that is a picture.

        Where a long description is several chunks, the first has the picture's vector. The others are texts; so is,
        with a warning, a picture that the model refuses.
        Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected, TokensSpent, Superseded.
        """
        if not passages.pictures:
            return passages
        hashes = {number: digest(picture) for number, picture in passages.pictures.items()}
        pictures = {hashes[at]: PictureFile(one.media_type, one.data) for at, one in passages.pictures.items()}
        vectors = await self._vectors(pictures)
        shown = passages.shown
        firsts = {at: hashes[number] for at, number in shown.items() if shown.get(at - 1) != number}
        found = {at: vectors[sha256].tolist() for at, sha256 in firsts.items() if sha256 in vectors}
        warnings = [*passages.warnings, *_refusal(len(pictures) - len(vectors), len(pictures))]
        return replace(passages, vectors={**passages.vectors, **found}, warnings=warnings)

    async def _vectors(self, pictures: Mapping[bytes, PictureFile]) -> dict[bytes, Vectors]:
        """Those that an earlier attempt checkpointed, the rest made now, as far as the model takes the pictures."""
        # The model's identity and no more: the form in which pictures travel does not change what is made of them.
        identity = uuid5(_IDENTITIES, repr(self.identity))
        async with self.db.transaction() as session:
            vectors = await CheckpointRepository(session, self.db.tenant_id).find(identity, list(pictures))
        waiting = [sha256 for sha256 in pictures if sha256 not in vectors]
        refused = tokens = 0
        sizes = [max(len(pictures[sha256].data), SLICE_BYTES // SLICE) for sha256 in waiting]
        for start, end in batches(sizes, most=SLICE_BYTES):
            if refused >= MOST_FAILURES:
                break
            self.progress.report("embedding", done=start, total=len(waiting), unit="pictures", tokens=tokens)
            await self.budget.require()
            made, spent = await self._embed({sha256: pictures[sha256] for sha256 in waiting[start:end]})
            async with self.db.transaction() as session:
                repository = CheckpointRepository(session, self.db.tenant_id)
                await repository.add(identity, self.document_id, made, version=self.progress.version)
                await repository.book_embedding(
                    self.identity.model, passages=len(made), tokens=spent, key_id=self.budget.key_id
                )
            vectors |= made
            refused, tokens = refused + end - start - len(made), tokens + spent
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


def _refusal(missing: int, total: int) -> list[str]:
    """For the document's owner."""
    if not missing:
        return []
    return [f"The embedding model did not take {missing} of {total} pictures: they are found by their words alone."]
