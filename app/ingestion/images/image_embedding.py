"""Embed the images of a document, if the embedding model takes images, so that searches find them by their content."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID, uuid5

from app.db.session import TenantDatabase
from app.inference.embedding import EmbeddingIdentity, EmbeddingRejected, ImageEmbedder, ImageFile, Vectors
from app.inference.embedding.token_estimate import split_batches
from app.ingestion.checkpoints import CheckpointRepository
from app.ingestion.embedding_text import ChunkedDocument
from app.ingestion.images.description import MAX_FAILURES, hash_image
from app.ingestion.progress import IngestionProgress
from app.ingestion.types import EncodedImage
from app.quotas.token_budget import TokenBudget
from app.warnings import ServiceWarning, WarningCode

MAX_SLICE_IMAGES = 16
MAX_SLICE_BYTES = 8 * 1024 * 1024
_IDENTITY_NAMESPACE = UUID("a1b7c9f2-7d0e-5b64-8e35-0c2f4a6d9e17")


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Image that is loaded only when it is embedded.

    Attributes:
        sha256: SHA-256 hash of the file.
        size: Size in bytes.
        read: Loads the image; returns None if it is missing.
    """

    sha256: bytes
    size: int
    read: Callable[[], Awaitable[EncodedImage | None]]


@dataclass(frozen=True, slots=True)
class DocumentImageEmbedder:
    """Embedder of the images of one document. Vectors are checkpointed by image hash, so a crash does not lose them."""

    db: TenantDatabase
    document_id: UUID
    embedder: ImageEmbedder
    identity: EmbeddingIdentity
    progress: IngestionProgress
    budget: TokenBudget

    async def embed(self, chunked: ChunkedDocument, sources: Mapping[int, ImageSource]) -> ChunkedDocument:
        """Embed the images of a document, and give each vector to the chunk that represents the image.

        If a long description makes several chunks, only the first one gets the vector of the image. The other chunks
        are embedded as text. A chunk whose image is missing or refused by the model is embedded as text too.

        Args:
            chunked: Chunks of the document.
            sources: Images by their number.

        Returns:
            The chunks with the vectors of the images, and a warning if images have no vector.

        Raises:
            EmbeddingUnavailable: The model does not answer; a retry may help.
            EmbeddingMismatch: The vectors have a wrong number or dimension.
            EmbeddingRejected: The model refuses images without naming one.
            DailyTokenLimitReached: The daily token budget is used up.
            VersionSuperseded: The version is no longer needed.
            JobPreempted: The job must give its place to another tenant.
            ObjectStoreUnavailable: An image cannot be loaded from the object store.
        """
        image_numbers = chunked.image_numbers
        first_sources = {
            at: sources[number]
            for at, number in image_numbers.items()
            if number in sources and image_numbers.get(at - 1) != number
        }
        if not first_sources:
            return chunked
        sources_by_hash = {source.sha256: source for source in first_sources.values()}
        vectors = await self._load_or_embed(sources_by_hash)
        vectors_by_position = {
            at: vectors[source.sha256].tolist() for at, source in first_sources.items() if source.sha256 in vectors
        }
        warnings = [
            *chunked.warnings,
            *_list_rejection_warnings(len(sources_by_hash) - len(vectors), len(sources_by_hash)),
        ]
        return replace(chunked, vectors={**chunked.vectors, **vectors_by_position}, warnings=warnings)

    async def _load_or_embed(self, sources: Mapping[bytes, ImageSource]) -> dict[bytes, Vectors]:
        """Return the vectors by image hash: checkpointed vectors of earlier attempts, new vectors for all other images.

        Missing images, and images that the model refuses, have no vector.
        """
        identity = derive_image_checkpoint_key(self.identity)
        async with self.db.transaction() as session:
            vectors = await CheckpointRepository(session, self.db.tenant_id).find(identity, list(sources))
        pending = [sha256 for sha256 in sources if sha256 not in vectors]
        rejected = tokens = 0
        sizes = [max(sources[sha256].size, MAX_SLICE_BYTES // MAX_SLICE_IMAGES) for sha256 in pending]
        for start, end in split_batches(sizes, max_tokens=MAX_SLICE_BYTES):
            if rejected >= MAX_FAILURES:
                break
            self.progress.report_slice("embedding", done=start, total=len(pending), unit="images", tokens=tokens)
            await self.budget.check()
            images = {sha256: await sources[sha256].read() for sha256 in pending[start:end]}
            files = {
                sha256: ImageFile(image.media_type, image.data) for sha256, image in images.items() if image is not None
            }
            new_vectors, slice_tokens = await self._embed_files(files)
            async with self.db.transaction() as session:
                repository = CheckpointRepository(session, self.db.tenant_id)
                await repository.add(identity, self.document_id, new_vectors, version=self.progress.version)
                await repository.record_embedding_usage(
                    self.identity.model, inputs=len(new_vectors), tokens=slice_tokens, key_id=self.budget.key_id
                )
            vectors |= new_vectors
            rejected, tokens = rejected + len(files) - len(new_vectors), tokens + slice_tokens
        return vectors

    async def _embed_files(self, files: Mapping[bytes, ImageFile]) -> tuple[dict[bytes, Vectors], int]:
        """Return the vectors of the images that the model accepts, and the number of tokens."""
        remaining, token_count = list(files), 0
        while remaining:
            try:
                embedded = await self.embedder.embed_images([files[sha256] for sha256 in remaining])
            except EmbeddingRejected as exc:
                position = exc.fields.get("index")
                if position is None:
                    raise
                remaining.pop(position)
                token_count += exc.fields.get("tokens", 0)
            else:
                return dict(zip(remaining, embedded.vectors, strict=True)), token_count + embedded.tokens
        return {}, token_count


def derive_image_checkpoint_key(identity: EmbeddingIdentity) -> UUID:
    """Derive the key of image checkpoints from an embedding identity. It differs from the key of text checkpoints.

    The key depends on nothing else: the format in which images are sent to the model does not change their vectors.
    """
    return uuid5(_IDENTITY_NAMESPACE, repr(identity))


def create_in_memory_sources(images: Mapping[int, EncodedImage]) -> dict[int, ImageSource]:
    """Create the sources of images that a parser has just returned, by their number."""
    return {
        number: ImageSource(hash_image(image), len(image.data), partial(_return_image, image))
        for number, image in images.items()
    }


async def _return_image(image: EncodedImage) -> EncodedImage:
    return image


def _list_rejection_warnings(rejected: int, total: int) -> list[ServiceWarning]:
    if not rejected:
        return []
    message = f"The embedding model did not embed {rejected} of {total} images; only their texts find them."
    return [ServiceWarning(WarningCode.IMAGES_NOT_EMBEDDED, message)]
