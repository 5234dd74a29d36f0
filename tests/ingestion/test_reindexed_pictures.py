"""Pictures in the next generation of a search index: nobody looks at them again."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from app.db.session import TenantDatabase
from app.embedded_postgres import DatabaseUrls
from app.job_handlers import JobContext
from app.knowledge_bases.types import Chunking, ReindexWishes
from tests.ingestion import illustrated
from tests.ingestion.workshop import Workshop, open_workshop, upload
from tests.protocol_servers.chat import ChatServer, says_colour


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    with ChatServer() as running:
        running.say = says_colour
        yield running


@pytest.fixture(scope="module")
async def workshop(
    database: DatabaseUrls, chat: ChatServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Workshop]:
    async with open_workshop(database, tmp_path_factory.mktemp("data"), models=chat.as_vision) as opened:
        yield opened


async def test_chunks_that_are_pictures_stay_that(workshop: Workshop, chat: ChatServer, tmp_path: Path) -> None:
    services = await workshop.new_tenant()
    tenant_id = services.principal.tenant_id
    document = await upload(services, illustrated.pdf(tmp_path / "two.pdf"))
    await workshop.ingest(document)

    async def shown(index_id: UUID) -> list[tuple[object, ...]]:
        rows = await workshop.owner.fetch(
            "select content, media_ordinal, media_type, page from chunk"
            " where index_id = $1 and media_ordinal is not null order by ordinal", index_id,
        )  # fmt: skip
        return [tuple(row) for row in rows]

    before = await services.knowledge_bases.find("default")
    looked = len(chat.received)
    wishes = ReindexWishes(chunking=Chunking("sentence", 24, 0))
    for _ in range(2):  # the second time from what the first has made
        await services.reindexing.start("default", wishes)
        row = await workshop.owner.fetchrow(
            "select * from search_index where tenant_id = $1 and state = 'building'", tenant_id
        )
        db = TenantDatabase(workshop.resources.database, tenant_id)
        await JobContext(workshop.resources, workshop.pipeline).reindexer.run(db, row["id"], row["job_id"])
        after = await services.knowledge_bases.find("default")
        assert after.index.id == row["id"]
        assert await shown(after.index.id) == await shown(before.index.id)
    assert len(await shown(before.index.id)) == 2
    assert len(chat.received) == looked
    assert await workshop.inconsistencies() == {}
