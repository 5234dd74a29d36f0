"""All extractors of an installation: the extraction without a model, and the extractors of plugins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from app.graph.extraction.extractor import MAX_MENTIONS_PER_CHUNK, ChunkText, extract_mentions
from app.graph.extraction.plugin_extractor import GuardedExtractor, load_extractors
from app.graph.extraction.types import Entity, EntityMention
from app.threads import raise_if_cancelled, run_in_thread
from app.warnings import ServiceWarning, WarningCode


@dataclass(frozen=True, slots=True)
class Extractors:
    """Extractors of a worker process. The extraction without a model is always among them."""

    plugins: Sequence[GuardedExtractor] = ()

    @classmethod
    def from_installed_plugins(cls) -> Self:
        """Load the extractors of plugins."""
        return cls([GuardedExtractor(extractor) for extractor in load_extractors().values()])

    @property
    def versions(self) -> Mapping[str, str]:
        """Return the versions of the plugins' extractors by their names."""
        return {plugin.extractor.name: plugin.extractor.version for plugin in self.plugins}

    async def extract(
        self,
        chunks: Sequence[ChunkText],
        *,
        metadata_keys: Sequence[str] = (),
        limit: int = MAX_MENTIONS_PER_CHUNK,
    ) -> tuple[list[list[EntityMention]], list[ServiceWarning]]:
        """Return the entities of the chunks of a document, in a thread.

        A plugin that fails or is late never fails the document: its entities are missing, and a warning says so.

        Args:
            chunks: Chunks of one document.
            metadata_keys: Metadata keys whose values are entities.
            limit: Maximum number of entities of one chunk.

        Returns:
            The entities of each chunk, in the order of the chunks, and warnings for the owner of the document.

        Raises:
            CancelledError: The caller was cancelled.
        """
        added, warnings = await self.find_entities(list(self.versions), chunks)
        return await run_in_thread(_extract_all, chunks, added, metadata_keys, limit), warnings

    async def find_entities(
        self, names: Sequence[str], chunks: Sequence[ChunkText]
    ) -> tuple[list[list[Entity]], list[ServiceWarning]]:
        """Return the entities that plugins find in the chunks of a document. A missing plugin is a warning too.

        Args:
            names: Names of the plugins' extractors, in the order in which they run.
            chunks: Chunks of one document.

        Returns:
            The entities of each chunk, in the order of the chunks, and warnings for the owner of the document.
        """
        plugins = {plugin.extractor.name: plugin for plugin in self.plugins}
        warnings: list[ServiceWarning] = []
        added: list[list[Entity]] = [[] for _ in chunks]
        for name in names:
            plugin = plugins.get(name)
            if plugin is None:
                warnings.append(_create_missing_warning(name))
                continue
            entities, plugin_warnings = await plugin.extract(chunks)
            warnings += plugin_warnings
            for chunk_entities, each in zip(added, entities, strict=True):
                chunk_entities += each
        return added, warnings


def _create_missing_warning(name: str) -> ServiceWarning:
    message = f"The extractor {name!r} is not installed, so the chunks have no entities of it. Install it, and reindex."
    return ServiceWarning(WarningCode.ENTITIES_NOT_EXTRACTED, message)


def _extract_all(
    chunks: Sequence[ChunkText], added: Sequence[Sequence[Entity]], metadata_keys: Sequence[str], limit: int
) -> list[list[EntityMention]]:
    mentions: list[list[EntityMention]] = []
    for position, chunk in enumerate(chunks):
        raise_if_cancelled()
        entities = added[position] if added else ()
        mentions.append(extract_mentions(chunk, metadata_keys=metadata_keys, limit=limit, entities=entities))
    return mentions
