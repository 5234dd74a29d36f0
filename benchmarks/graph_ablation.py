"""Entity graphs without a source of entities, for a benchmark: without titles, or without names by their capitals.

The API cannot leave out a source. The benchmark replaces the rows of the graph in its own database, with the extraction
and the statements of ingestion.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Any
from uuid import UUID

from app.db.session import Database, Session
from app.db.statements import parse_statement
from app.documents.provided_graph import ProvidedGraph
from app.graph.chunk_graph import extract_chunk_graph
from app.graph.extraction.extractor import ChunkText
from app.graph.repository import GraphLocation, GraphRepository
from app.graph.types import ChunkGraph

BATCH_SIZE = 500
_TABLES = ("relation", "chunk_entity", "entity", "private_entity_frequency")
_DELETE_GRAPH = [parse_statement(f"delete from {table} where tenant_id = :t and index_id = :i") for table in _TABLES]
_FIND_INDEX = parse_statement("""
select id, kb_id from search_index where tenant_id = :t and kb_id = :kb and state = 'live'""")
_CHUNKS = parse_statement("""
select c.id, c.content, c.section_titles, c.provided_graph, d.title, d.source, l.scope_key
  from chunk c join document d on d.tenant_id = c.tenant_id and d.id = c.document_id
  join chunk_lexical l on (l.tenant_id, l.index_id, l.chunk_id) = (c.tenant_id, c.index_id, c.id)
 where c.tenant_id = :t and c.index_id = :i order by l.scope_key, c.id""")


class GraphSources(StrEnum):
    """Sources of entities of a graph."""

    ALL = "all"
    NO_TITLES = "no titles"
    NO_CAPITALS = "no capitals"


@dataclass(frozen=True, slots=True)
class GraphReplacement:
    """Database of the benchmark's service, and the knowledge base whose graph is replaced."""

    database_url: str
    tenant_id: UUID
    kb_id: UUID
    language: str

    async def replace_graph(self, sources: GraphSources) -> int:
        """Replace the rows of the graph, and return the number of chunks with entities.

        Args:
            sources: Sources of the new entities.
        """
        database = Database.connect(self.database_url, pool_size=1)
        try:
            async with database.transaction(self.tenant_id) as session:
                return await self._replace_in_session(session, sources)
        finally:
            await database.engine.dispose()

    async def _replace_in_session(self, session: Session, sources: GraphSources) -> int:
        index = await session.fetch_row(_FIND_INDEX, {"t": self.tenant_id, "kb": self.kb_id})
        assert index is not None
        values = {"t": self.tenant_id, "i": index["id"]}
        for statement in _DELETE_GRAPH:
            await session.fetch_rows(statement, values)
        rows, repository, count = await session.fetch_rows(_CHUNKS, values), GraphRepository(session, self.tenant_id), 0
        for scope_key, group in groupby(rows, key=lambda row: row["scope_key"]):
            chunks = list(group)
            graphs = [extract_graph(row, self.language, sources) for row in chunks]
            location = GraphLocation(self.kb_id, index["id"], scope_key)
            for start in range(0, len(chunks), BATCH_SIZE):
                ids = [row["id"] for row in chunks[start : start + BATCH_SIZE]]
                await repository.add_chunks(location, ids, graphs[start : start + BATCH_SIZE])
            count += sum(bool(graph.mentions) for graph in graphs)
        return count


def extract_graph(row: Mapping[str, Any], language: str, sources: GraphSources) -> ChunkGraph:
    """Return the entities of a stored chunk.

    Args:
        row: Columns of the chunk and of its document.
        language: Language of the knowledge base.
        sources: Sources of the entities.
    """
    headings: Sequence[str] = row["section_titles"] or ()
    has_titles = sources is not GraphSources.NO_TITLES
    chunk = ChunkText(
        text=row["content"],
        title=(row["title"] or "") if has_titles else "",
        source_name=row["source"] if has_titles else "",
        headings=tuple(headings) if has_titles else (),
        metadata={},
        given=(),
        language=language,
    )
    graph = extract_chunk_graph(chunk, ProvidedGraph.from_stored(row["provided_graph"]), metadata_keys=())
    if sources is not GraphSources.NO_CAPITALS:
        return graph
    return replace(graph, mentions=[mention for mention in graph.mentions if mention.kind != "name"], relations=())
