"""Documents of the operator: read through a tenant's knowledge base of the same name, and changed by no tenant."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.access import SharedDocument
from app.documents.deletion.service import DeletionSelection
from app.documents.repository import DocumentRowFilters
from app.documents.scopes import DocumentScope
from app.documents.types import DocumentFields, DocumentNotFound
from app.embedded_postgres import DatabaseUrls
from app.errors import ForbiddenError, InvalidInputError
from app.knowledge_bases.types import NewKnowledgeBase
from app.principal import Principal, Role
from tests.fixtures.trees import read_tree
from tests.ingestion.workshop import Workshop, add_text, open_workshop

RULES = "the lantern rules are for everybody"


@dataclass
class SharedLevelServices:
    """The operator's document, and services of two callers: a tenant's unrestricted key, and one
    restricted to a user.
    """

    workshop: Workshop
    shared: DocumentRow
    whole: TenantServices
    user: TenantServices


@pytest.fixture(scope="module")
async def house(database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedLevelServices]:
    async with open_workshop(database, tmp_path_factory.mktemp("data")) as workshop:
        await workshop.operator.knowledge_bases.create(NewKnowledgeBase("default"))
        shared = await add_text(workshop.operator, RULES)
        await workshop.ingest(shared)
        whole = await workshop.new_tenant()
        tenant = whole.principal
        user = Principal(tenant.tenant_id, tenant.tenant_name, Role.ADMIN, user_id="u")
        yield SharedLevelServices(workshop, shared, whole, TenantServices(user, workshop.resources))


async def test_operators_upload_is_shared(house: SharedLevelServices) -> None:
    assert (house.shared.scope_level, house.shared.user_id) == ("shared", None)
    again = await house.workshop.operator.uploads.upload_text("default", RULES, DocumentFields(), media_type=None)
    assert (again.created, again.document.id) == (False, house.shared.id)
    for scope in (DocumentScope("u"), DocumentScope(None, "c"), DocumentScope(None, "c", "a")):
        with pytest.raises(InvalidInputError):
            await add_text(house.workshop.operator, "a lantern of one", scope=scope)
        with pytest.raises(InvalidInputError):
            await house.workshop.operator.documents.update("default", house.shared.id, {"scope": scope})


@pytest.mark.parametrize("key", ["whole", "user"])
async def test_shared_document_is_readable_by_tenants(house: SharedLevelServices, key: str) -> None:
    services: TenantServices = getattr(house, key)
    document = house.shared.id
    assert (await services.documents.get("default", document)).scope_level == "shared"
    assert (await services.documents.get_original("default", document, inline_types=())).key.startswith(
        f"{house.shared.tenant_id}/"
    )
    tree = await read_tree(services.content, "default", document, utf16=True)
    assert tree.text == RULES
    (chunk,) = (
        await services.content.list_chunks("default", document, node_id=None, after=-1, limit=10, utf16=False)
    ).chunks
    assert (await services.content.get_chunk("default", document, chunk.id, utf16=False)).chunk.content == RULES
    node = list(tree.nodes)[-1].id
    assert (await services.content.get_node("default", document, node, utf16=False)).text
    assert (await services.content.list_ancestors("default", document, node, utf16=False))[0]
    assert [state.status async for state in services.documents.stream_states("default", document, 5) if state] == [
        "ready"
    ]


@pytest.mark.parametrize("key", ["whole", "user"])
async def test_shared_document_is_not_changed_by_tenants(house: SharedLevelServices, key: str) -> None:
    services: TenantServices = getattr(house, key)
    document = house.shared.id
    changes: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: services.documents.update("default", document, {"title": "ours now"}),
        lambda: services.documents.update("default", document, {"scope": DocumentScope()}),
        lambda: services.documents.reindex("default", document),
        lambda: services.deletions.delete("default", document),
    )
    for change in changes:
        with pytest.raises(SharedDocument):
            await change()
    for selection in (
        DeletionSelection(ids=[document]),
        DeletionSelection(filter={"$source": "text"}),
        DeletionSelection(filter={}),
    ):
        assert (await services.deletions.delete_many("default", selection, confirm="default"))[1] == 0
    assert (await house.workshop.document(document))["title"] is None
    if key == "user":
        with pytest.raises(ForbiddenError):
            await add_text(services, "for everybody", scope=DocumentScope())
    assert (await house.workshop.operator.documents.get("default", document)).status == "ready"


async def test_shared_document_is_listed_only_on_request(house: SharedLevelServices) -> None:
    own = await add_text(house.whole, "our own lantern")
    for services, shown in ((house.whole, {own.id}), (house.user, {own.id}), (house.workshop.operator, set())):
        _, listed = await services.documents.list_documents("default", DocumentRowFilters(), after=None, limit=50)
        assert {document.id for document in listed} - {house.shared.id} == shown
        filters = DocumentRowFilters(scope_key=house.shared.scope_key)
        _, listed = await services.documents.list_documents("default", filters, after=None, limit=50)
        assert {document.id for document in listed} == {house.shared.id}


async def test_shared_document_is_not_reachable_by_other_names(house: SharedLevelServices) -> None:
    """A tenant cannot read it by another name of a knowledge base, nor other documents of the system tenant."""
    await house.whole.knowledge_bases.create(NewKnowledgeBase("second"))
    await house.workshop.operator.knowledge_bases.create(NewKnowledgeBase("third"))
    with pytest.raises(DocumentNotFound):
        await house.whole.documents.get("second", house.shared.id)
    private = await add_text(house.workshop.operator, "a lantern that was the operator's own once")
    await house.workshop.owner.execute("update document set scope_level = 'user' where id = $1", private.id)
    for read in (house.whole.documents.get, house.whole.documents.reindex, house.whole.deletions.delete):
        with pytest.raises(DocumentNotFound):
            await read("default", private.id)


async def test_shared_document_appears_and_disappears_for_readers(house: SharedLevelServices) -> None:
    coming = await add_text(house.workshop.operator, "a lantern that comes and goes")
    states = house.whole.documents.stream_states("default", coming.id, 30)
    first = await anext(states)
    assert first is not None
    assert first.status == "queued"
    await house.workshop.operator.deletions.delete("default", coming.id)
    assert await anext(states) is None
    await states.aclose()
    with pytest.raises(DocumentNotFound):
        await house.whole.documents.get("default", coming.id)
