"""List of entities in the order of their names, from names of the index and from readable chunks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.graph.entities.corrected_keys import CorrectedKeys
from app.graph.entities.repository import EntityRepository, GroupSummary
from app.graph.entities.types import EntitySummary, NameCondition
from app.graph.extraction.names import normalize_name
from app.graph.repository import KIND_NAMES

Position = tuple[str, int]
BATCH_SIZE = 400
"""Maximum number of entities that are summarized at once."""


@dataclass(frozen=True, slots=True)
class _CorrectedCandidate:
    """Entity with corrections, and the normalized names that its readable chunks may have."""

    key: int
    names: Sequence[str]


def to_summary(key: int, group: GroupSummary, sort_name: str | None = None) -> EntitySummary:
    """Return an entity with the name that readable chunks write.

    A chunk that names the entity itself comes before a chunk whose name a correction leads to it.

    Args:
        key: The entity.
        group: Its summary.
        sort_name: Its normalized name; None derives it from the readable chunks.
    """
    names = {member: normalize_name(summary.name) for member, summary in group.members.items()}
    member = key if key in names else min(names, key=lambda other: (names[other], other))
    kinds = sorted({KIND_NAMES.get(letter, letter) for letter in group.total.kinds})
    return EntitySummary(
        key,
        names[member] if sort_name is None else sort_name,
        group.members[member].name,
        kinds,
        group.total.type,
        group.total.chunks,
        group.total.titles,
    )


@dataclass(frozen=True, slots=True)
class EntityListing:
    """List of the entities that one caller reads."""

    repository: EntityRepository
    corrected: CorrectedKeys
    condition: NameCondition

    async def list_page(self, after: Position | None, limit: int) -> list[EntitySummary]:
        """Return entities by normalized name and key.

        Args:
            after: Position of the last entity of the page before.
            limit: Maximum number of entities.
        """
        plain = await self._list_uncorrected(after, limit)
        corrected = await self._list_corrected(after, plain[-1] if len(plain) == limit else None, limit)
        return sorted([*plain, *corrected], key=_get_position)[:limit]

    async def _list_uncorrected(self, after: Position | None, limit: int) -> list[EntitySummary]:
        changed = self.corrected.list_changed()
        entities: list[EntitySummary] = []
        size = min(BATCH_SIZE, limit + limit // 4 + 10)
        behind: str | None = ""
        while behind is not None and len(entities) < limit:
            names, behind = await self.repository.list_names(
                self.condition, low=after[0] if after else "", after=behind, limit=size
            )
            new = {key: name for name, key in names if key not in changed and (after is None or (name, key) > after)}
            groups = await self.repository.summarize(list(new), self.corrected) if new else {}
            entities += [to_summary(key, groups[key], name) for key, name in new.items() if key in groups]
            size = BATCH_SIZE
        return entities[:limit]

    async def _list_corrected(
        self, after: Position | None, last: EntitySummary | None, limit: int
    ) -> list[EntitySummary]:
        """Return entities with corrections up to the last entity of the page."""
        first_name = after[0] if after else ""
        candidates = sorted(
            (min(name for name in candidate.names if name >= first_name), candidate.key)
            for candidate in await self._list_candidates()
            if any(first_name <= name and (last is None or name <= last.sort_name) for name in candidate.names)
        )
        entities: list[EntitySummary] = []
        for start in range(0, len(candidates), BATCH_SIZE):
            batch = candidates[start : start + BATCH_SIZE]
            if sum(entity.sort_name < batch[0][0] for entity in entities) >= limit:
                break
            groups = await self.repository.summarize([key for _, key in batch], self.corrected)
            matching = (to_summary(key, group) for key, group in groups.items() if self._has_match(group))
            entities += [entity for entity in matching if after is None or _get_position(entity) > after]
        return entities

    async def _list_candidates(self) -> Iterable[_CorrectedCandidate]:
        """Return the entities with corrections of which at least one name meets the condition."""
        changed = self.corrected.list_changed()
        if not changed:
            return []
        stored = await self.repository.list_key_names(changed)
        candidates = []
        for key in self.corrected.list_targets():
            target_names = [normalize_name(name) for name in self.corrected.target_names.get(key, ())]
            names = [stored[raw] for raw in self.corrected.list_raw_keys(key) if raw in stored] + target_names
            if any(map(self.condition.is_met_by, names)):
                candidates.append(_CorrectedCandidate(key, names))
        return candidates

    def _has_match(self, group: GroupSummary) -> bool:
        return any(self.condition.is_met_by(normalize_name(member.name)) for member in group.members.values())


def _get_position(entity: EntitySummary) -> Position:
    return entity.sort_name, entity.key
