"""Describe the images of a document with a vision model, store and load them, and find the chunks of each image."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid5

from app.db.models.images import DocumentImage
from app.db.models.tenant_data import DocumentRow
from app.db.session import TenantDatabase
from app.documents.content.image_repository import ImageRepository
from app.documents.types import build_object_key
from app.ids import generate_id
from app.inference.vision import PROMPT, ImageDescription, VisionModel, VisionRejected, VisionUnavailable
from app.ingestion.checkpoints import CheckpointRepository
from app.ingestion.chunkers.toolkit.drafts import LeafIndex
from app.ingestion.parsers.toolkit.text_cleanup import clean_text
from app.ingestion.progress import IngestionProgress
from app.ingestion.types import Block, ChunkDraft, DocumentTree, EncodedImage, NoTextFound, ParsedDocument
from app.logging import get_logger
from app.object_store import ObjectMissing, ObjectStore
from app.temp_files import create_temp_directory, create_temp_file
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

MAX_CONCURRENT_CALLS = 2
"""Maximum number of concurrent calls of the vision model for one document."""

MAX_FAILURES = 5
"""Number of failed images after which the other images of a document are skipped: the model itself has a fault."""

_IDENTITY_NAMESPACE = UUID("5d1d0c0e-2b57-5c3b-9a40-7a9c6f2e8d11")

VisionFailure = VisionUnavailable | VisionRejected


@dataclass(frozen=True, slots=True)
class ImageDescriber:
    """Describer of the images of one document. Descriptions of equal images are reused within the tenant.

    Attributes:
        db: Database of the tenant.
        document_id: The document.
        vision: Vision model.
        language: Language of the descriptions.
        progress: Progress of the version.
        keep_undescribed: Whether images without a description stay in the document, so that their pixels can be
            embedded.
    """

    db: TenantDatabase
    document_id: UUID
    vision: VisionModel
    language: str
    progress: IngestionProgress
    keep_undescribed: bool = False

    async def describe(self, parsed: ParsedDocument) -> ParsedDocument:
        """Replace the placeholder text of each image by its description.

        Args:
            parsed: Result of the parser.

        Returns:
            The document with descriptions, and a warning with the number of images that have none.

        Raises:
            VisionUnavailable: The model does not answer, and the document has no other text.
            NoTextFound: No image has a description, and the document has no other text.
            VersionSuperseded: The version is no longer needed.
            JobPreempted: The job must give its place to another tenant.
        """
        numbers = [block.image_index for block in parsed.blocks if block.image_index is not None]
        numbers_by_hash = {hash_image(parsed.images[number]): number for number in numbers}
        if not numbers_by_hash:
            return parsed
        async with self.db.transaction() as session:
            descriptions = await ImageRepository(session, self.db.tenant_id).find_captions(
                self._identity, list(numbers_by_hash)
            )
        undescribed = [
            parsed.images[number] for sha256, number in numbers_by_hash.items() if sha256 not in descriptions
        ]
        failure = await self._describe_all(undescribed, descriptions)
        hashes = [hash_image(image) for image in parsed.images]
        described_blocks = [(block, _apply_description(block, hashes, descriptions)) for block in parsed.blocks]
        missing = sum(described is None for _, described in described_blocks)
        blocks = [described or block for block, described in described_blocks if described or self.keep_undescribed]
        if not blocks:
            raise failure if isinstance(failure, VisionUnavailable) else NoTextFound
        return replace(
            parsed, blocks=blocks, warnings=[*parsed.warnings, *_list_undescribed_warnings(missing, failure)]
        )

    @property
    def _identity(self) -> UUID:
        """Key of the model, the prompt and the language: descriptions with equal keys are interchangeable."""
        return uuid5(_IDENTITY_NAMESPACE, repr((self.vision.name, PROMPT, self.language)))

    async def _describe_all(
        self, images: Sequence[EncodedImage], descriptions: dict[bytes, str]
    ) -> VisionFailure | None:
        """Add and store the descriptions batch by batch. Return the last failure, or None if there was none."""
        failures: list[VisionFailure] = []
        for start in range(0, len(images), MAX_CONCURRENT_CALLS):
            self.progress.report_slice("parsing", done=start, total=len(images), unit="images")
            batch = images[start : start + MAX_CONCURRENT_CALLS]
            results = await asyncio.gather(*map(self._request_description, batch))
            described = {
                hash_image(image): result
                for image, result in zip(batch, results, strict=True)
                if isinstance(result, ImageDescription) and result.text
            }
            descriptions |= {sha256: result.text for sha256, result in described.items()}
            await self._store_descriptions(described)
            failures += [result for result in results if not isinstance(result, ImageDescription)]
            if len(failures) >= MAX_FAILURES:
                break
        return failures[-1] if failures else None

    async def _request_description(self, image: EncodedImage) -> ImageDescription | VisionFailure:
        try:
            description = await self.vision.describe(image.data, image.media_type, language=self.language)
        except (VisionUnavailable, VisionRejected) as exc:
            return exc
        return ImageDescription(clean_text(description.text), description.tokens)

    async def _store_descriptions(self, described: Mapping[bytes, ImageDescription]) -> None:
        async with self.db.transaction() as session:
            texts = {sha256: description.text for sha256, description in described.items()}
            await ImageRepository(session, self.db.tenant_id).add_captions(self._identity, self.document_id, texts)
            tokens = sum(description.tokens for description in described.values())
            checkpoints = CheckpointRepository(session, self.db.tenant_id)
            await checkpoints.record_usage(self.vision.name, inputs=len(described), tokens=tokens)


def hash_image(image: EncodedImage) -> bytes:
    """Return the SHA-256 hash of the image file, by which equal images are recognized."""
    return hashlib.sha256(image.data).digest()


def _apply_description(block: Block, hashes: Sequence[bytes], descriptions: Mapping[bytes, str]) -> Block | None:
    """Return the block with the description of its image, or None for an image without a description."""
    if block.image_index is None:
        return block
    description = descriptions.get(hashes[block.image_index])
    return replace(block, text=description) if description else None


def _list_undescribed_warnings(count: int, failure: VisionFailure | None) -> list[ServiceWarning]:
    if not count:
        return []
    reason = failure.message if failure else "The vision model returned no description."
    message = f"{count} {'images were' if count > 1 else 'image was'} not described. {reason}"
    return [ServiceWarning(WarningCode.IMAGES_NOT_DESCRIBED, message)]


def find_draft_images(tree: DocumentTree, drafts: Sequence[ChunkDraft]) -> dict[int, int]:
    """Find the drafts that represent images. Such a draft contains one image and no other text.

    Args:
        tree: Tree of the document.
        drafts: Its chunks.

    Returns:
        The number of the image, by the position of the draft.
    """
    leaves = LeafIndex.from_tree(tree)
    if all(leaf.image_index is None for leaf in leaves.nodes):
        return {}
    overlapping = ((position, leaves.find_overlapping(draft.start, draft.end)) for position, draft in enumerate(drafts))
    return {
        position: nodes[0].image_index for position, nodes in overlapping if nodes and nodes[0].image_index is not None
    }


async def store_images(
    objects: ObjectStore, document: DocumentRow, images: Mapping[int, EncodedImage]
) -> dict[int, DocumentImage]:
    """Store images in the object store, each under a new key.

    Args:
        objects: Object store.
        document: Row of the document.
        images: Images by their number.

    Returns:
        The rows of the images, by their number. They are not in the database yet.

    Raises:
        ObjectStoreUnavailable: The object store does not answer. The sweeper deletes the images stored before.
    """
    rows = {}
    with create_temp_directory("ingest") as folder:
        path = create_temp_file(folder, "image")
        for number, image in images.items():
            row = DocumentImage(
                tenant_id=document.tenant_id,
                document_id=document.id,
                version=document.version,
                ordinal=number,
                key=build_object_key(document.tenant_id, document.id, generate_id()),
                media_type=image.media_type,
                bytes=len(image.data),
                width=image.width,
                height=image.height,
                sha256=hash_image(image),
            )
            await asyncio.to_thread(path.write_bytes, image.data)
            await objects.put(row.key, path)
            rows[number] = row
    return rows


async def load_image(objects: ObjectStore, row: DocumentImage) -> EncodedImage | None:
    """Load an image from the object store.

    Args:
        objects: Object store.
        row: Row of the image.

    Returns:
        The image. None if the object is missing or its hash is not the stored one.

    Raises:
        ObjectStoreUnavailable: The object store does not answer.
    """
    with create_temp_directory("ingest") as folder:
        path = create_temp_file(folder, "image")
        try:
            await objects.get(row.key, path)
            image = EncodedImage(row.media_type, row.width, row.height, await asyncio.to_thread(path.read_bytes))
        except ObjectMissing:
            image = None
    if image is None or hash_image(image) != row.sha256:
        logger.warning("image.missing", document=str(row.document_id), image=row.ordinal)
        return None
    return image
