"""Visibility of documents: random documents, moves and searches, compared with a model in plain Python.

The operator is one of the tenants: its documents are shared with tenants that have a knowledge base of the same name.
"""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.documents.access import SharedDocument
from app.documents.repository import DocumentRowFilters
from app.documents.scopes import SHARED_SCOPE, DocumentScope
from app.documents.types import DocumentFields, DocumentNotFound
from app.embedded_postgres import DatabaseUrls
from app.errors import InvalidInputError
from app.knowledge_bases.types import KnowledgeBaseNotFound, NewKnowledgeBase
from app.principal import Principal, Role
from app.retrieval.types import SearchRequest
from tests.ingestion.workshop import Workshop, open_workshop

DOCUMENTS, MOVES, QUESTIONS = 110, 150, 100
KNOWLEDGE_BASES = ("default", "second")
OPERATOR = "operator"
# No tenant has a knowledge base of the last name.
SHARED_BASES = ("default", "third")
USERS, CHATS, AGENTS = ("u1", "u2", "c1"), ("c1", "c2", "u1"), ("a1", "a2")
TENANTS = ("first", "other")
LADDER = ("chat_agent", "chat_shared", "user", "tenant", "shared")


@dataclass(frozen=True)
class Modelled:
    """A document of the model, with the ids that a reader has to name."""

    tenant: str
    kb: str
    user: str | None
    chat: str | None
    agent: str | None
    dynamic: bool
    expired: bool

    @property
    def level(self) -> str:
        if self.tenant == OPERATOR:
            return "shared"
        if self.agent:
            return "chat_agent"
        return "chat_shared" if self.chat else "user" if self.user else "tenant"

    def within(self, tenant: str, kb: str) -> bool:
        """Return whether a document, expired or not, is in a tenant's knowledge base or in the operator's of the same
        name.
        """
        return self.tenant in (tenant, OPERATOR) and self.kb == kb

    def visible(self, *, user: str | None, chat: str | None, agent: str | None) -> bool:
        """Return whether a reader names the document's scope. A chat is named with its user, or without one if it has
        none. An agent is only named together with its chat.
        """
        if self.chat is not None:
            return (self.user, self.chat) == (user, chat) and self.agent in (None, agent)
        return self.user in (None, user)

    def moved(self, user: str | None, chat: str | None) -> "Modelled | None":
        """Return the document after a move, or None if the move does not lead up."""
        there = replace(self, user=user, chat=chat, agent=None)
        if (there.user, there.chat, there.agent) == (self.user, self.chat, self.agent):
            return self
        if LADDER.index(there.level) <= LADDER.index(self.level) or (chat and (user, chat) != (self.user, self.chat)):
            return None
        if there.level == "user" and self.user not in (None, user):
            return None
        return there


@dataclass
class TwoTenants:
    """Two tenants that use the same ids, and all their documents."""

    workshop: Workshop
    services: dict[str, TenantServices]
    knowledge_bases: dict[str, tuple[str, ...]]
    documents: dict[UUID, Modelled] = field(default_factory=dict)

    def narrowed(self, tenant: str, *kbs: UUID) -> TenantServices:
        principal = self.services[tenant].principal
        reader = Principal(principal.tenant_id, principal.tenant_name, Role.READER, knowledge_base_ids=frozenset(kbs))
        return TenantServices(reader, self.workshop.resources)


def any_of(rng: random.Random, ids: tuple[str, ...]) -> str | None:
    return rng.choice((None, *ids))


def random_document(rng: random.Random) -> Modelled:
    if rng.random() < 0.25:
        kb = rng.choice(SHARED_BASES)
        return Modelled(OPERATOR, kb, None, None, None, rng.random() < 0.3, rng.random() < 0.2)
    choices: list[tuple[str | None, str | None, str | None]] = [
        (None, None, None), (rng.choice(USERS), None, None), (None, rng.choice(CHATS), None),
        *[(None, rng.choice(CHATS), rng.choice(AGENTS))] * 2,
        *[(rng.choice(USERS), rng.choice(CHATS), agent) for agent in (None, rng.choice(AGENTS))] * 2,
    ]  # fmt: skip
    user, chat, agent = rng.choice(choices)
    return Modelled(
        rng.choice(TENANTS), rng.choice(KNOWLEDGE_BASES), user, chat, agent, rng.random() < 0.3, rng.random() < 0.2
    )


@pytest.fixture(scope="module")
async def world(database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TwoTenants]:
    data_dir: Path = tmp_path_factory.mktemp("data")
    rng = random.Random(5)
    async with open_workshop(database, data_dir) as workshop:
        services = {name: await workshop.new_tenant() for name in TENANTS}
        for one in services.values():
            await one.knowledge_bases.create(NewKnowledgeBase("second"))
        for kb in SHARED_BASES:
            await workshop.operator.knowledge_bases.create(NewKnowledgeBase(kb))
        bases: dict[str, tuple[str, ...]] = {**dict.fromkeys(TENANTS, KNOWLEDGE_BASES), OPERATOR: SHARED_BASES}
        world = TwoTenants(workshop, {**services, OPERATOR: workshop.operator}, bases)
        for number in range(DOCUMENTS):
            await add(world, random_document(rng), number)
        yield world


async def add(world: TwoTenants, model: Modelled, number: int) -> None:
    facts = DocumentFields(scope=DocumentScope(model.user, model.chat, model.agent), dynamic=model.dynamic)
    uploads = world.services[model.tenant].uploads
    uploaded = await uploads.upload_text(model.kb, f"lantern {number}", facts, media_type="text/plain")
    await world.workshop.ingest(uploaded.document)
    if model.expired:
        expiry = datetime.now(UTC) - timedelta(seconds=1)
        await world.services[model.tenant].documents.update(model.kb, uploaded.document.id, {"expires_at": expiry})
    world.documents[uploaded.document.id] = model


async def check_questions(world: TwoTenants, rng: random.Random) -> None:
    sizes = set()
    for _ in range(QUESTIONS):
        tenant = rng.choice([*TENANTS, *TENANTS, OPERATOR])
        first, last = world.knowledge_bases[tenant]
        kbs = rng.choice([None, [first], [last], [first, last]])
        user, chat, dynamic = any_of(rng, USERS), any_of(rng, CHATS), rng.random() < 0.7
        agent = any_of(rng, AGENTS) if chat else None
        expected = {
            key
            for key, one in world.documents.items()
            if any(one.within(tenant, kb) for kb in kbs or (first, last)) and (dynamic or not one.dynamic)
            and not one.expired and one.visible(user=user, chat=chat, agent=agent)
        }  # fmt: skip
        for strategy in ("dense", "lexical", "hybrid"):
            request = SearchRequest(
                ["lantern"], knowledge_bases=kbs, strategy=strategy, top_k=200, scope=DocumentScope(user, chat, agent),
                exclude_dynamic=not dynamic,
            )  # fmt: skip
            result = await world.services[tenant].retrieval.search(request)
            assert {hit.document.id for hit in result.hits} == expected, (tenant, request)
            assert {hit.knowledge_base for hit in result.hits} == {world.documents[key].kb for key in expected}
        sizes.add(len(expected))
    assert len(sizes) > 5


@pytest.mark.capability("scope-named")
async def test_search_sees_only_named_scopes(world: TwoTenants) -> None:
    await check_questions(world, random.Random(6))


@pytest.mark.capability("scope-list")
async def test_list_returns_exactly_one_level(world: TwoTenants) -> None:
    for tenant in TENANTS:
        for kb in KNOWLEDGE_BASES:
            lasting = {key: one for key, one in world.documents.items() if not one.expired}
            shared = {key for key, one in lasting.items() if (one.tenant, one.kb) == (OPERATOR, kb)}
            _, found = await world.services[tenant].documents.list_documents(
                kb, DocumentRowFilters(scope_key=SHARED_SCOPE.to_key()), after=None, limit=500
            )
            assert {document.id for document in found} == shared
            mine = {key: one for key, one in lasting.items() if (one.tenant, one.kb) == (tenant, kb)}
            for user, chat, agent in {(one.user, one.chat, one.agent) for one in world.documents.values()}:
                filters = DocumentRowFilters(scope_key=DocumentScope(user, chat, agent).to_key())
                _, found = await world.services[tenant].documents.list_documents(kb, filters, after=None, limit=500)
                expected = {key for key, one in mine.items() if (one.user, one.chat, one.agent) == (user, chat, agent)}
                assert {document.id for document in found} == expected


async def test_restricted_key_sees_no_other_knowledge_base(world: TwoTenants) -> None:
    for tenant in TENANTS:
        ids = {kb: (await world.services[tenant].knowledge_bases.find(kb)).row.id for kb in KNOWLEDGE_BASES}
        for kb, other in zip(KNOWLEDGE_BASES, reversed(KNOWLEDGE_BASES), strict=True):
            narrowed = world.narrowed(tenant, ids[kb])
            result = await narrowed.retrieval.search(SearchRequest(["lantern"], top_k=200))
            assert {world.documents[hit.document.id].kb for hit in result.hits} == {kb}
            with pytest.raises(KnowledgeBaseNotFound):
                await narrowed.retrieval.search(SearchRequest(["lantern"], knowledge_bases=[kb, other]))
            for key, one in world.documents.items():
                if one.tenant == tenant and one.kb == other:
                    with pytest.raises(KnowledgeBaseNotFound):
                        await narrowed.documents.get(other, key)


async def test_document_is_readable_if_visible_and_changeable_by_owner(world: TwoTenants) -> None:
    for asking, services in world.services.items():
        for kb in world.knowledge_bases[asking]:
            for key, one in list(world.documents.items())[::2]:
                expected: dict[str, type[Exception]] = {}
                if one.expired or not one.within(asking, kb):
                    expected = {"read": DocumentNotFound, "change": DocumentNotFound}
                elif one.tenant != asking:
                    expected = {"change": SharedDocument}
                for kind, doing in (
                    ("read", services.documents.get(kb, key)),
                    ("change", services.documents.update(kb, key, {"title": f"of {one.tenant}"})),
                ):
                    if kind in expected:
                        with pytest.raises(expected[kind]):
                            await doing
                    else:
                        await doing


async def test_catalog_reads_document_by_id(world: TwoTenants) -> None:
    for asking, services in world.services.items():
        for key, one in list(world.documents.items())[::2]:
            if not one.expired and any(one.within(asking, kb) for kb in world.knowledge_bases[asking]):
                read = await services.catalog.read_text(key, start=2, max_characters=6)
                assert (read.text, read.has_more, read.knowledge_base) == ("ntern ", True, one.kb)
            else:
                with pytest.raises(DocumentNotFound):
                    await services.catalog.read_text(key, start=0, max_characters=100)
    (kb, *_), tenant = KNOWLEDGE_BASES, TENANTS[0]
    narrowed = world.narrowed(tenant, (await world.services[tenant].knowledge_bases.find(kb)).row.id)
    for key, one in list(world.documents.items())[::2]:
        if not one.expired and one.within(tenant, kb):
            assert (await narrowed.catalog.read_text(key, start=0, max_characters=100)).document.id == key
        else:
            with pytest.raises(DocumentNotFound):
                await narrowed.catalog.read_text(key, start=0, max_characters=100)


async def test_catalog_list_equals_search_without_scope(world: TwoTenants) -> None:
    for asking, services in world.services.items():
        principal = services.principal
        first = (await services.knowledge_bases.find("default")).row.id
        for kbs, user in ((None, None), ({first}, None), (None, "u1"), ({first}, "u2")):
            only = None if kbs is None else frozenset(kbs)
            reading = replace(principal, role=Role.READER, knowledge_base_ids=only, user_id=user)
            library = TenantServices(reading, world.workshop.resources).catalog
            expected = {
                key for key, one in world.documents.items()
                if one.tenant == asking and not one.expired and one.visible(user=user, chat=None, agent=None)
                and (kbs is None or one.kb == "default")
            }  # fmt: skip
            listed: list[UUID] = []
            while page := await library.list_documents(before=listed[-1] if listed else None, limit=7):
                listed += [document.id for document, _ in page]
                assert all(world.documents[document.id].kb == name for document, name in page)
            assert listed == sorted(expected, reverse=True)


@pytest.mark.capability("scope-promotion-cost")
async def test_promotion_embeds_nothing_again(world: TwoTenants) -> None:
    """The last test of the module: all searches are repeated after random moves."""
    rng, requests, moved = random.Random(8), world.workshop.endpoint.request_count, 0
    for _ in range(MOVES):
        key = rng.choice(sorted(world.documents))
        model = world.documents[key]
        own_chats = [(model.user, model.chat), (rng.choice(USERS), model.chat)] if model.chat else []
        user, chat = rng.choice([(None, None), (rng.choice(USERS), None), (None, rng.choice(CHATS)), *own_chats])
        wanted = model.moved(user, chat)
        update = world.services[model.tenant].documents.update(model.kb, key, {"scope": DocumentScope(user, chat)})
        if model.expired or wanted is None:
            with pytest.raises(DocumentNotFound if model.expired else InvalidInputError):
                await update
        else:
            await update
            world.documents[key] = wanted
            moved += wanted != model
    assert moved > 20
    assert world.workshop.endpoint.request_count == requests
    await check_questions(world, rng)
