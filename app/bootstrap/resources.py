"""What lives as long as the process: connected to and checked once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, Self
from uuid import UUID

from app.answering.factory import AnswerModels, create_answer_models
from app.audit.service import AuditService
from app.audit.sign_in_audit import SignInAuditLog
from app.db.control_plane import ControlPlaneDatabase
from app.db.session import Database, Session, TenantDatabase
from app.documents.change_feed import DocumentChangeFeed
from app.documents.content.service import create_tree_slots
from app.http_sources.client import HttpSourceClient
from app.inference.chat import ChatModel
from app.inference.circuit_breaker import HasCircuitBreaker
from app.inference.embedding.factory import create_embedders
from app.inference.embedding.model_registry import Embedders
from app.inference.factory import create_chat_model, create_vision_model
from app.inference.rerank import Reranker
from app.inference.rerank.factory import create_reranker
from app.inference.vision import VisionModel
from app.ingestion.chunkers.registry import load_chunkers
from app.ingestion.injection_flags import detect_prompt_injection
from app.ingestion.parsers.factory import create_preview_pool
from app.ingestion.parsers.registry import list_plugin_types, load_installed_parsers
from app.ingestion.preview.service import PARSER_PROCESSES, PARSER_TIMEOUT_SECONDS, PreviewContext
from app.jobs.queue import JobQueue
from app.knowledge_bases.cache import KnowledgeBaseCache
from app.knowledge_bases.index_settings import IndexSettings
from app.knowledge_bases.service import create_default_knowledge_base
from app.object_store import ObjectStore
from app.object_store.factory import create_object_store
from app.principal import UNLIMITED, Quotas
from app.quotas.local_limits import LocalLimits
from app.quotas.rate_limit import SearchRateLimiter
from app.quotas.usage_meter import UsageMeter
from app.retrieval.costs import SearchCosts
from app.retrieval.query_embedding import QueryVectorCache
from app.retrieval.routing.profile_cache import ProfileCache
from app.retrieval.strategies import load_strategies
from app.settings import QuotaSettings, Settings
from app.sql_views.types import ConnectionAddress
from app.tenant_slots import TenantSlots
from app.tenants.auth.authentication import Authenticator
from app.tenants.auth.factory import create_authenticator
from app.tenants.service import TenantService
from app.transfer.slots import TransferSlots
from app.webhooks.sender import WebhookSender
from app.worker_exits import WorkerExitHistory


def _build_default_quotas(settings: QuotaSettings) -> Quotas:
    return UNLIMITED if settings.default is None else Quotas(**settings.default.model_dump())


def _build_index_settings(embedders: Embedders, http_sources: HttpSourceClient) -> IndexSettings:
    return IndexSettings(
        embedders=embedders,
        chunkers=load_chunkers().keys(),
        strategies=load_strategies().keys(),
        source_allowlist=http_sources.allowlist,
    )


def _build_local_limits(settings: QuotaSettings) -> LocalLimits:
    return LocalLimits(settings.searches_per_second, settings.concurrent_searches, settings.event_streams)


def _create_preview_context(settings: Settings, embedders: Embedders, vision: VisionModel | None) -> PreviewContext:
    return PreviewContext(
        parsers=create_preview_pool(
            settings.parser, processes=PARSER_PROCESSES, timeout_seconds=PARSER_TIMEOUT_SECONDS
        ),
        embedders=embedders,
        parseable_types=load_installed_parsers().keys(),
        plugin_types=list_plugin_types(load_installed_parsers()),
        describes_images=vision is not None,
    )


class _ClosableResource(Protocol):
    async def close(self) -> None: ...


def _register_close(stack: AsyncExitStack, resource: _ClosableResource | None) -> None:
    """Where there is one."""
    if resource is not None:
        stack.push_async_callback(resource.close)


@dataclass(frozen=True, slots=True)
class Resources:
    """What lives as long as the process."""

    settings: Settings
    database: Database
    control_plane: ControlPlaneDatabase
    objects: ObjectStore
    embedders: Embedders
    query_vector_cache: QueryVectorCache
    routing_profile_cache: ProfileCache
    knowledge_base_cache: KnowledgeBaseCache
    search_costs: SearchCosts
    vision: VisionModel | None
    reranker: Reranker | None
    rewrite_model: ChatModel | None
    answer_models: AnswerModels | None
    http_sources: HttpSourceClient
    queue: JobQueue
    change_feed: DocumentChangeFeed
    index_settings: IndexSettings
    preview_context: PreviewContext
    authenticator: Authenticator
    sign_in_audit: SignInAuditLog
    tenants: TenantService
    rate_limiter: SearchRateLimiter
    local_limits: LocalLimits
    meter: UsageMeter
    webhook_sender: WebhookSender
    worker_exits: WorkerExitHistory
    transfer_slots: TransferSlots
    tree_slots: TenantSlots
    sql_view_address: ConnectionAddress

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
            change_feed = DocumentChangeFeed(database)
            stack.push_async_callback(change_feed.close)
            authenticator = create_authenticator(settings.identity, database, operator_key)
            stack.push_async_callback(authenticator.close)
            sign_in_audit = SignInAuditLog(database, ControlPlaneDatabase(database).find_rejected_key)
            stack.push_async_callback(sign_in_audit.close)
            meter = UsageMeter(database)
            stack.push_async_callback(meter.close)
            objects = create_object_store(settings)
            stack.push_async_callback(objects.close)
            embedders = await asyncio.to_thread(
                create_embedders,
                settings.embedding,
                bulk_threads=bulk_threads,
                rate_limit_store=ControlPlaneDatabase(database),
            )
            stack.push_async_callback(embedders.close)
            await embedders.check()
            vision = create_vision_model(settings.models)
            _register_close(stack, vision)
            reranker = await asyncio.to_thread(create_reranker, settings.rerank)
            _register_close(stack, reranker)
            models = settings.models
            rewrite_model = await asyncio.to_thread(
                create_chat_model, models, models.rewrite_model or models.chat_model
            )
            _register_close(stack, rewrite_model)
            answer_models = await asyncio.to_thread(create_answer_models, models)
            _register_close(stack, answer_models)
            webhook_sender = await asyncio.to_thread(WebhookSender.from_settings, settings.webhooks)
            stack.push_async_callback(webhook_sender.close)
            http_sources = await asyncio.to_thread(
                HttpSourceClient.from_settings, settings.http_sources, detect_prompt_injection
            )
            stack.push_async_callback(http_sources.close)
            transfer_slots = TransferSlots.from_settings(settings.transfers)
            stack.push_async_callback(transfer_slots.readers.close)
            yield cls._wire(
                settings,
                transfer_slots,
                database,
                change_feed,
                objects,
                embedders,
                vision,
                reranker,
                rewrite_model,
                answer_models,
                http_sources,
                authenticator,
                sign_in_audit,
                meter,
                webhook_sender,
                ConnectionAddress.from_settings(
                    settings.publication, database_url, is_embedded=settings.database.url is None
                ),
            )

    @classmethod
    def _wire(
        cls,
        settings: Settings,
        transfer_slots: TransferSlots,
        database: Database,
        change_feed: DocumentChangeFeed,
        objects: ObjectStore,
        embedders: Embedders,
        vision: VisionModel | None,
        reranker: Reranker | None,
        rewrite_model: ChatModel | None,
        answer_models: AnswerModels | None,
        http_sources: HttpSourceClient,
        authenticator: Authenticator,
        sign_in_audit: SignInAuditLog,
        meter: UsageMeter,
        webhook_sender: WebhookSender,
        sql_view_address: ConnectionAddress,
    ) -> Self:
        control_plane = ControlPlaneDatabase(database)
        queue = JobQueue(database, control_plane, settings.worker.max_attempts)
        index_settings = _build_index_settings(embedders, http_sources)

        async def provision_tenant(session: Session, tenant_id: UUID) -> None:
            await create_default_knowledge_base(session, tenant_id, index_settings)

        return cls(
            settings=settings,
            database=database,
            control_plane=control_plane,
            objects=objects,
            embedders=embedders,
            query_vector_cache=QueryVectorCache(),
            routing_profile_cache=ProfileCache(),
            knowledge_base_cache=KnowledgeBaseCache(),
            search_costs=SearchCosts.from_pool_size(settings.database.pool_size),
            vision=vision,
            reranker=reranker,
            rewrite_model=rewrite_model,
            answer_models=answer_models,
            http_sources=http_sources,
            queue=queue,
            change_feed=change_feed,
            index_settings=index_settings,
            preview_context=_create_preview_context(settings, embedders, vision),
            authenticator=authenticator,
            sign_in_audit=sign_in_audit,
            tenants=TenantService(
                database,
                control_plane,
                queue,
                authenticator.credential_cache,
                provision_tenant,
                _build_default_quotas(settings.quotas),
            ),
            rate_limiter=SearchRateLimiter(database),
            local_limits=_build_local_limits(settings.quotas),
            meter=meter,
            webhook_sender=webhook_sender,
            worker_exits=WorkerExitHistory(),
            transfer_slots=transfer_slots,
            tree_slots=create_tree_slots(),
            sql_view_address=sql_view_address,
        )

    def list_open_circuits(self) -> list[str]:
        """Return the names of the model endpoints whose circuit breaker is open in this process."""
        answer_models = self.answer_models
        clients: list[object] = [*self.embedders.all, self.reranker, self.rewrite_model]
        clients += [answer_models.answer_model, answer_models.analysis_model] if answer_models is not None else []
        breakers = [client.circuit_breaker for client in clients if isinstance(client, HasCircuitBreaker)]
        return sorted({breaker.name for breaker in breakers if breaker.is_open})

    def create_audit_service(self, tenant_id: UUID) -> AuditService:
        """What was done in one tenant, for the operator; the tenant may be gone."""
        return AuditService(TenantDatabase(self.database, tenant_id))
