"""What lives as long as the process: connected to and checked once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, Self
from uuid import UUID

from app.access import UNLIMITED, Principal, Quotas
from app.answering.opening import AnswerModels, open_answer_models
from app.audit.service import AuditService
from app.audit.sign_ins import SignInAudit
from app.bootstrap.tenant_services import TenantServices
from app.db.session import Database, Session, TenantDatabase
from app.db.system import SystemDatabase
from app.documents.reading import tree_places
from app.documents.watching import DocumentWatch
from app.http_sources.client import HttpSources
from app.inference.breaker import HasCircuitBreaker
from app.inference.chat import ChatModel
from app.inference.embedding.opening import open_embedders
from app.inference.embedding.registry import Embedders
from app.inference.opening import open_chat, open_vision
from app.inference.rerank import Reranker
from app.inference.rerank.opening import open_reranker
from app.inference.vision import VisionModel
from app.ingestion.chunkers.installed import installed_chunkers
from app.ingestion.flags import suspicions
from app.ingestion.parsers.installed import installed_parsers, plugin_types
from app.ingestion.parsers.opening import preview_pool
from app.ingestion.preview import PARSER_PROCESSES, WALL_SECONDS, PreviewDesk
from app.job_queue import JobQueue
from app.knowledge_bases.index_settings import IndexSettings
from app.knowledge_bases.known import KnownKnowledgeBases
from app.knowledge_bases.service import furnish_tenant
from app.object_store import ObjectStore
from app.object_store.opening import open_object_store
from app.publications.types import Address
from app.quotas.local import LocalLimits
from app.quotas.meter import UsageMeter
from app.quotas.rates import Rates
from app.retrieval.costs import SearchCosts
from app.retrieval.queries import KnownVectors
from app.retrieval.routing_profiles import KnownProfiles
from app.retrieval.strategies import installed_strategies
from app.settings import QuotaSettings, Settings
from app.tenant_places import TenantPlaces
from app.tenants.authentication import Authenticator
from app.tenants.opening import open_authenticator
from app.tenants.service import TenantService
from app.transfer.places import TransferPlaces
from app.webhooks.sending import WebhookSender
from app.worker_ends import WorkerEnds


def _default_quotas(settings: QuotaSettings) -> Quotas:
    return UNLIMITED if settings.default is None else Quotas(**settings.default.model_dump())


def _index_settings(embedders: Embedders, http_sources: HttpSources) -> IndexSettings:
    return IndexSettings(
        embedders=embedders,
        chunkers=installed_chunkers().keys(),
        strategies=installed_strategies().keys(),
        sources=http_sources.gate,
    )


def _local_limits(settings: QuotaSettings) -> LocalLimits:
    return LocalLimits(settings.searches_per_second, settings.concurrent_searches, settings.event_streams)


def _preview_desk(settings: Settings, embedders: Embedders, vision: VisionModel | None) -> PreviewDesk:
    return PreviewDesk(
        parsers=preview_pool(settings.parser, processes=PARSER_PROCESSES, most_seconds=WALL_SECONDS),
        embedders=embedders,
        parseable=installed_parsers().keys(),
        plugin_types=plugin_types(installed_parsers()),
        describes_pictures=vision is not None,
    )


class _Closing(Protocol):
    async def close(self) -> None: ...


def _close_with(stack: AsyncExitStack, opened: _Closing | None) -> None:
    """Where there is one."""
    if opened is not None:
        stack.push_async_callback(opened.close)


@dataclass(frozen=True, slots=True)
class Resources:
    """What lives as long as the process."""

    settings: Settings
    database: Database
    system: SystemDatabase
    objects: ObjectStore
    embedders: Embedders
    known_vectors: KnownVectors
    known_profiles: KnownProfiles
    known_knowledge_bases: KnownKnowledgeBases
    search_costs: SearchCosts
    vision: VisionModel | None
    reranker: Reranker | None
    rewriter: ChatModel | None
    answerers: AnswerModels | None
    http_sources: HttpSources
    queue: JobQueue
    watch: DocumentWatch
    index_settings: IndexSettings
    previews: PreviewDesk
    authenticator: Authenticator
    sign_ins: SignInAudit
    tenants: TenantService
    rates: Rates
    local_limits: LocalLimits
    meter: UsageMeter
    webhooks: WebhookSender
    worker_ends: WorkerEnds
    transfers: TransferPlaces
    trees: TenantPlaces
    address: Address

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: Settings, *, database_url: str, operator_key: str, bulk_threads: int
    ) -> AsyncIterator[Self]:
        """Connect to everything and check it, once.

        Raises DatabaseRefused, DatabaseUnavailable, TokensMissing, EmbeddingMismatch, EmbeddingRejected, and as
        ``open_embedders``; an embedding endpoint that does not answer is a warning.
        """
        async with AsyncExitStack() as stack:
            database = Database.connect(database_url, pool_size=settings.database.pool_size)
            stack.push_async_callback(database.close)
            await database.check()
            watch = DocumentWatch(database)
            stack.push_async_callback(watch.close)
            authenticator = open_authenticator(settings.identity, database, operator_key)
            stack.push_async_callback(authenticator.close)
            sign_ins = SignInAudit(database, SystemDatabase(database).refused_key)
            stack.push_async_callback(sign_ins.close)
            meter = UsageMeter(database)
            stack.push_async_callback(meter.close)
            objects = open_object_store(settings)
            stack.push_async_callback(objects.close)
            embedders = await asyncio.to_thread(
                open_embedders, settings.embedding, bulk_threads=bulk_threads, ledger=SystemDatabase(database)
            )
            stack.push_async_callback(embedders.close)
            await embedders.check()
            vision = open_vision(settings.models)
            _close_with(stack, vision)
            reranker = await asyncio.to_thread(open_reranker, settings.rerank)
            _close_with(stack, reranker)
            models = settings.models
            rewriter = await asyncio.to_thread(open_chat, models, models.rewrite_model or models.chat_model)
            _close_with(stack, rewriter)
            answerers = await asyncio.to_thread(open_answer_models, models)
            _close_with(stack, answerers)
            webhooks = await asyncio.to_thread(WebhookSender.open, settings.webhooks)
            stack.push_async_callback(webhooks.close)
            http_sources = await asyncio.to_thread(HttpSources.open, settings.http_sources, suspicions)
            stack.push_async_callback(http_sources.close)
            transfers = TransferPlaces.of(settings.transfers)
            stack.push_async_callback(transfers.readers.close)
            yield cls._wire(
                settings,
                transfers,
                database,
                watch,
                objects,
                embedders,
                vision,
                reranker,
                rewriter,
                answerers,
                http_sources,
                authenticator,
                sign_ins,
                meter,
                webhooks,
                Address.of(settings.publication, database_url, is_embedded=settings.database.url is None),
            )

    @classmethod
    def _wire(
        cls,
        settings: Settings,
        transfers: TransferPlaces,
        database: Database,
        watch: DocumentWatch,
        objects: ObjectStore,
        embedders: Embedders,
        vision: VisionModel | None,
        reranker: Reranker | None,
        rewriter: ChatModel | None,
        answerers: AnswerModels | None,
        http_sources: HttpSources,
        authenticator: Authenticator,
        sign_ins: SignInAudit,
        meter: UsageMeter,
        webhooks: WebhookSender,
        address: Address,
    ) -> Self:
        system = SystemDatabase(database)
        queue = JobQueue(database, system, settings.worker.max_attempts)
        index_settings = _index_settings(embedders, http_sources)

        async def furnish(session: Session, tenant_id: UUID) -> None:
            await furnish_tenant(session, tenant_id, index_settings)

        return cls(
            settings=settings,
            database=database,
            system=system,
            objects=objects,
            embedders=embedders,
            known_vectors=KnownVectors(),
            known_profiles=KnownProfiles(),
            known_knowledge_bases=KnownKnowledgeBases(),
            search_costs=SearchCosts.of(settings.database.pool_size),
            vision=vision,
            reranker=reranker,
            rewriter=rewriter,
            answerers=answerers,
            http_sources=http_sources,
            queue=queue,
            watch=watch,
            index_settings=index_settings,
            previews=_preview_desk(settings, embedders, vision),
            authenticator=authenticator,
            sign_ins=sign_ins,
            tenants=TenantService(
                database, system, queue, authenticator.known, furnish, _default_quotas(settings.quotas)
            ),
            rates=Rates(database),
            local_limits=_local_limits(settings.quotas),
            meter=meter,
            webhooks=webhooks,
            worker_ends=WorkerEnds(),
            transfers=transfers,
            trees=tree_places(),
            address=address,
        )

    def open_circuits(self) -> list[str]:
        """Return the names of the model endpoints whose circuit breaker is open in this process."""
        answerers = self.answerers
        clients: list[object] = [*self.embedders.all, self.reranker, self.rewriter]
        clients += [answerers.writer, answerers.reader] if answerers is not None else []
        breakers = [client.circuit_breaker for client in clients if isinstance(client, HasCircuitBreaker)]
        return sorted({breaker.name for breaker in breakers if breaker.is_open})

    def audit_of(self, tenant_id: UUID) -> AuditService:
        """What was done in one tenant, for the operator; the tenant may be gone."""
        return AuditService(TenantDatabase(self.database, tenant_id))

    def for_tenant(self, principal: Principal) -> TenantServices:
        """The services of one caller; cheap, made for every request."""
        return TenantServices(principal, self)
