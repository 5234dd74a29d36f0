"""The pictures of a document between parser and store: described, put away, read again, known by their chunks."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid5

from app.db.models.media import DocumentMedia
from app.db.models.tenant_data import Document
from app.db.session import TenantDatabase
from app.documents.media_repository import MediaRepository
from app.documents.types import object_key
from app.ids import new_id
from app.inference.vision import TASK, Description, VisionModel, VisionRejected, VisionUnavailable
from app.ingestion.checkpoints import CheckpointRepository
from app.ingestion.chunkers.drafting import Leaves
from app.ingestion.parsers.cleaning import clean_text
from app.ingestion.progress import Progress
from app.ingestion.types import Block, ChunkDraft, DocumentTree, NoText, ParsedDocument, Picture
from app.logging import get_logger
from app.object_store import ObjectMissing, ObjectStore
from app.temporary import temporary_file, temporary_folder

logger = get_logger(__name__)

AT_ONCE = 2
# More pictures of one document that the model fails on, and something else is wrong: the rest is not tried.
MOST_FAILURES = 5
_IDENTITIES = UUID("5d1d0c0e-2b57-5c3b-9a40-7a9c6f2e8d11")

Failure = VisionUnavailable | VisionRejected


@dataclass(frozen=True, slots=True)
class Describer:
    """Puts the pictures of one document into words; what was paid for once in the tenant is not paid for again.

    Pictures of which nothing is said are left out, unless somebody ``keeps`` them.
    """

    db: TenantDatabase
    document_id: UUID
    vision: VisionModel
    language: str
    progress: Progress
    keeps: bool = False

    async def describe(self, parsed: ParsedDocument) -> ParsedDocument:
        """The document with descriptions for its pictures' texts; those that have none are counted.

        Raises VisionUnavailable or NoText where nothing at all is left; Superseded, HandedBack.
        """
        numbers = [block.picture for block in parsed.blocks if block.picture is not None]
        shown = {digest(parsed.pictures[number]): number for number in numbers}
        if not shown:
            return parsed
        async with self.db.transaction() as session:
            texts = await MediaRepository(session, self.db.tenant_id).descriptions(self._identity, list(shown))
        unknown = [parsed.pictures[number] for sha256, number in shown.items() if sha256 not in texts]
        failure = await self._ask_all(unknown, texts)
        hashes = [digest(picture) for picture in parsed.pictures]
        told = [(block, _told(block, hashes, texts)) for block in parsed.blocks]
        missing = sum(said is None for _, said in told)
        blocks = [said or block for block, said in told if said or self.keeps]
        if not blocks:
            raise failure if isinstance(failure, VisionUnavailable) else NoText
        return replace(parsed, blocks=blocks, warnings=[*parsed.warnings, *_undescribed(missing, failure)])

    @property
    def _identity(self) -> UUID:
        """What a description hangs on besides the picture."""
        return uuid5(_IDENTITIES, repr((self.vision.name, TASK, self.language)))

    async def _ask_all(self, pictures: Sequence[Picture], texts: dict[bytes, str]) -> Failure | None:
        """Fill in ``texts``, which are kept as they come; why some are missing, if they are."""
        failures: list[Failure] = []
        for start in range(0, len(pictures), AT_ONCE):
            self.progress.slice("parsing", done=start, total=len(pictures), unit="pictures")
            batch = pictures[start : start + AT_ONCE]
            answers = await asyncio.gather(*map(self._ask, batch))
            said = {
                digest(picture): answer
                for picture, answer in zip(batch, answers, strict=True)
                if isinstance(answer, Description) and answer.text
            }
            texts |= {sha256: answer.text for sha256, answer in said.items()}
            await self._keep(said)
            failures += [answer for answer in answers if not isinstance(answer, Description)]
            if len(failures) >= MOST_FAILURES:
                break
        return failures[-1] if failures else None

    async def _ask(self, picture: Picture) -> Description | Failure:
        try:
            said = await self.vision.describe(picture.data, picture.media_type, language=self.language)
        except (VisionUnavailable, VisionRejected) as exc:
            return exc
        return Description(clean_text(said.text), said.tokens)

    async def _keep(self, said: Mapping[bytes, Description]) -> None:
        async with self.db.transaction() as session:
            texts = {sha256: one.text for sha256, one in said.items()}
            await MediaRepository(session, self.db.tenant_id).add_descriptions(self._identity, self.document_id, texts)
            tokens = sum(one.tokens for one in said.values())
            costs = CheckpointRepository(session, self.db.tenant_id)
            await costs.book(self.vision.name, passages=len(said), tokens=tokens)


def digest(picture: Picture) -> bytes:
    """What tells pictures apart."""
    return hashlib.sha256(picture.data).digest()


def _told(block: Block, hashes: Sequence[bytes], texts: Mapping[bytes, str]) -> Block | None:
    """The block with what is said of it; None for a picture of which nothing is."""
    if block.picture is None:
        return block
    said = texts.get(hashes[block.picture])
    return replace(block, text=said) if said else None


def _undescribed(count: int, failure: Failure | None) -> list[str]:
    """For the document's owner."""
    if not count:
        return []
    why = failure.message if failure else "The vision model said nothing of them."
    return [f"{count} {'pictures were' if count > 1 else 'picture was'} not described. {why}"]


def pictures_of_drafts(tree: DocumentTree, drafts: Sequence[ChunkDraft]) -> dict[int, int]:
    """Positions of the drafts that are pictures, and which; no draft holds more than one, nor anything beside it."""
    leaves = Leaves.of(tree)
    if all(leaf.picture is None for leaf in leaves.nodes):
        return {}
    touched = ((position, leaves.touched(draft.start, draft.end)) for position, draft in enumerate(drafts))
    return {position: nodes[0].picture for position, nodes in touched if nodes and nodes[0].picture is not None}


async def put_pictures(
    objects: ObjectStore, document: Document, pictures: Mapping[int, Picture]
) -> dict[int, DocumentMedia]:
    """Store pictures by their numbers, beside the original, each under a key of its own; their rows.

    Raises ObjectStoreUnavailable; what was stored until then is swept.
    """
    rows = {}
    with temporary_folder("ingest") as folder:
        path = temporary_file(folder, "picture")
        for number, picture in pictures.items():
            row = DocumentMedia(
                tenant_id=document.tenant_id,
                document_id=document.id,
                version=document.version,
                ordinal=number,
                key=object_key(document.tenant_id, document.id, new_id()),
                media_type=picture.media_type,
                bytes=len(picture.data),
                width=picture.width,
                height=picture.height,
                sha256=digest(picture),
            )
            await asyncio.to_thread(path.write_bytes, picture.data)
            await objects.put(row.key, path)
            rows[number] = row
    return rows


async def get_picture(objects: ObjectStore, row: DocumentMedia) -> Picture | None:
    """A stored picture; None where its bytes are gone, or are not what they were. Raises ObjectStoreUnavailable."""
    with temporary_folder("ingest") as folder:
        path = temporary_file(folder, "picture")
        try:
            await objects.get(row.key, path)
            picture = Picture(row.media_type, row.width, row.height, await asyncio.to_thread(path.read_bytes))
        except ObjectMissing:
            picture = None
    if picture is None or digest(picture) != row.sha256:
        logger.warning("picture.missing", document=str(row.document_id), picture=row.ordinal)
        return None
    return picture
