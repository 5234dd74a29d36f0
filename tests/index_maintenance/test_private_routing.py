"""Routing profiles are built from chunks that everybody sees; private documents do not change them."""

from app.documents.scopes import DocumentScope
from app.worker.handlers import JobContext
from tests.index_maintenance.indexed_knowledge_base import IndexedKnowledgeBase
from tests.ingestion.workshop import add_text

TEXTS = ["horses eat grass", "the stock market fell", "recipes for tomato soup", "rust compiler errors", "violins"]
VECTORS = "select embedding::text from routing_vector where index_id = $1 order by number"


async def _made(library: IndexedKnowledgeBase) -> list[str]:
    """Build the profile again; return its vectors."""
    await JobContext(library.workshop.resources, library.workshop.pipeline).resources.routing_profile_builder.refresh(
        library.tenant, library.index
    )
    return [row[0] for row in await library.workshop.owner.fetch(VECTORS, library.index)]


async def test_refresh_with_private_documents_creates_same_centroids(library: IndexedKnowledgeBase) -> None:
    for text in TEXTS:
        await library.put(text, text)
    centroids = await _made(library)
    assert len(centroids) == 2
    for number in range(12):
        scope = (DocumentScope("alice"), DocumentScope(None, "chat"), DocumentScope(None, "chat", "agent"))[number % 3]
        await library.workshop.ingest(await add_text(library.services, f"private {number}", scope=scope))
    assert await _made(library) == centroids


async def test_refresh_with_private_documents_only_creates_no_centroids(library: IndexedKnowledgeBase) -> None:
    await library.workshop.ingest(await add_text(library.services, "private", scope=DocumentScope("alice")))
    assert await _made(library) == []
