"""Corrections of entities in archives. Keys depend on the knowledge base, so an archive has normalized names."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from app.db.session import Session
from app.db.statements import parse_statement
from app.graph.entities.corrected_keys import CorrectedKey, CorrectedKeys
from app.graph.entities.correction_repository import CorrectionRepository, NewCorrection
from app.graph.entities.correction_service import TooManyCorrections, normalize_target_name
from app.graph.entities.statements import LIST_CORRECTED_KEYS
from app.graph.entities.types import MAX_CORRECTIONS
from app.graph.entity_ids import encode_entity_id
from app.graph.keys import compute_entity_key
from app.ids import generate_id
from app.transfer.archive_format import MergeRecord, SplitRecord
from app.transfer.types import ArchiveDamaged

MAX_MERGE_BYTES = 768 * 1024
"""Maximum bytes of the merges in a manifest."""


@dataclass(frozen=True, slots=True)
class ArchivedCorrections:
    """Corrections of a knowledge base at the beginning of an export.

    Attributes:
        merges: The merges, oldest first.
        splits: The splits by document.
        omitted: Ids of the entities whose correction is left out, with the reason.
    """

    merges: Sequence[MergeRecord] = ()
    splits: Mapping[UUID, Sequence[SplitRecord]] = field(default_factory=dict)
    omitted: Sequence[tuple[str, str]] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the archive has no correction."""
        return not self.merges and not self.splits


async def load_corrections(session: Session, tenant_id: UUID, kb_id: UUID, index_id: UUID) -> ArchivedCorrections:
    """Return the corrections of a knowledge base with the names of its search index."""
    rows = await session.fetch_rows(_LIST, {"t": tenant_id, "kb": kb_id, "i": index_id})
    names: dict[int, str] = {}
    for row in rows:
        texts = [row["name"], row["target"], normalize_target_name(row["target_name"] or "")]
        names |= {compute_entity_key(kb_id, text): text for text in texts if text}
    merges: list[MergeRecord] = []
    splits: dict[UUID, list[SplitRecord]] = defaultdict(list)
    omitted: list[tuple[str, str]] = []
    merge_bytes = 0
    for row in rows:
        name, target = names.get(row["key"]), names.get(row["target_key"])
        if name is None or target is None:
            omitted.append((encode_entity_id(row["key"]), "no chunk names both entities of the correction"))
        elif row["document_id"] is not None:
            record = SplitRecord(name=name, target=target, target_name=row["target_name"] or target)
            splits[row["document_id"]].append(record)
        else:
            merge = MergeRecord(name=name, target=target)
            merge_bytes += len(merge.to_json_line())
            if merge_bytes <= MAX_MERGE_BYTES:
                merges.append(merge)
            else:
                omitted.append((encode_entity_id(row["key"]), "the archive has too many merges"))
    return ArchivedCorrections(merges, splits, omitted)


async def import_merges(
    session: Session, tenant_id: UUID, kb_id: UUID, merges: Sequence[MergeRecord], created_by: str
) -> bool:
    """Store the merges of an archive. Entities that are merged already stay as they are.

    Args:
        session: Transaction that has locked the knowledge base.
        tenant_id: Owner of the knowledge base.
        kb_id: The knowledge base.
        merges: The merges.
        created_by: Id of the importing API key.

    Returns:
        Whether there was a new merge.

    Raises:
        ArchiveDamaged: A merged entity is the target of another merge.
        TooManyCorrections: The knowledge base has too many corrections.
    """
    if {merge.name for merge in merges} & {merge.target for merge in merges}:
        raise ArchiveDamaged("manifest.json: an entity is merged and the target of another merge. Export it again.")
    repository = CorrectionRepository(session, tenant_id, kb_id)
    corrected = await _load_corrected_keys(session, tenant_id, kb_id)
    rows: dict[int, NewCorrection] = {}
    for merge in merges:
        key = compute_entity_key(kb_id, merge.name)
        target = corrected.resolve(compute_entity_key(kb_id, merge.target))
        # An entity that others count as already is left alone, so that no chain of merges begins.
        if key not in corrected.merged and key not in corrected.sources and key != target:
            rows.setdefault(key, NewCorrection(generate_id(), key, target, None, None))
    await _add(repository, list(rows.values()), created_by)
    return bool(rows)


async def import_splits(
    session: Session, tenant_id: UUID, kb_id: UUID, document_id: UUID, splits: Iterable[SplitRecord], created_by: str
) -> None:
    """Store the splits of a new document.

    Args:
        session: Transaction that has locked the knowledge base.
        tenant_id: Owner of the knowledge base.
        kb_id: The knowledge base.
        document_id: The document.
        splits: The splits.
        created_by: Id of the importing API key.

    Raises:
        TooManyCorrections: The knowledge base has too many corrections.
    """
    corrected = await _load_corrected_keys(session, tenant_id, kb_id)
    rows: dict[int, NewCorrection] = {}
    for split in splits:
        key = compute_entity_key(kb_id, split.name)
        target = corrected.resolve(compute_entity_key(kb_id, split.target))
        if key != target:
            rows.setdefault(key, NewCorrection(generate_id(), key, target, document_id, split.target_name))
    await _add(CorrectionRepository(session, tenant_id, kb_id), list(rows.values()), created_by)


async def _add(repository: CorrectionRepository, rows: Sequence[NewCorrection], created_by: str) -> None:
    if rows:
        await repository.add(rows, created_by)
        if await repository.count() > MAX_CORRECTIONS:
            raise TooManyCorrections


async def _load_corrected_keys(session: Session, tenant_id: UUID, kb_id: UUID) -> CorrectedKeys:
    rows = await session.fetch_rows(LIST_CORRECTED_KEYS, {"t": tenant_id, "kb": kb_id})
    return CorrectedKeys.from_rows(CorrectedKey(*row) for row in rows)


_LIST = parse_statement("""
select a.key, a.target_key, a.document_id, a.target_name,
       (select max(e.name collate "C") from entity e
         where e.tenant_id = :t and e.index_id = :i and e.key = a.key) as name,
       (select max(e.name collate "C") from entity e
         where e.tenant_id = :t and e.index_id = :i and e.key = a.target_key) as target
  from entity_alias a where a.tenant_id = :t and a.kb_id = :kb order by a.created_at, a.id""")
