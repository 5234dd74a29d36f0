"""Resources that live as long as the process. They are connected and checked once, at start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar
from uuid import UUID

from app.answering.factory import AnswerModels, create_answer_models
from app.audit.service import AuditService
from app.audit.sign_in_audit import SignInAuditLog
from app.db.control_plane import ControlPlaneDatabase
from app.db.session import Database, Session, TenantDatabase
from app.documents.change_feed import DocumentChangeFeed
from app.documents.content.service import create_tree_slots
from app.documents.scopes import DocumentScope
from app.enrichment.models import EnrichmentModels, create_enrichment_models
from app.graph.extraction.extractors import Extractors
from app.http_sources.client import HttpSourceClient
from app.index_maintenance.routing_profiles import RoutingProfileBuilder
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
from app.ingestion.page_images.service import PageImageContext
from app.ingestion.parsers.factory import create_preview_pool
from app.ingestion.parsers.registry import list_plugin_types, load_installed_parsers
from app.ingestion.preview.service import PARSER_PROCESSES, PARSER_TIMEOUT_SECONDS, PreviewContext
from app.jobs.queue import JobQueue
from app.knowledge_bases.cache import KnowledgeBaseCache
from app.knowledge_bases.creation import create_default_knowledge_base
from app.knowledge_bases.index_settings import IndexSettings
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
from app.source_kinds.clients import SourceClients
from app.source_kinds.pgvector import PgvectorClient
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


def _build_index_settings(models: "_Models", sources: SourceClients) -> IndexSettings:
    return IndexSettings(
        embedders=models.embedders,
        chunkers=load_chunkers().keys(),
        strategies=load_strategies().keys(),
        sources=sources,
        extractor_versions=models.extractors.versions,
        chat_models=models.enrichment_models.models.keys(),
    )


def _build_sql_view_address(settings: Settings, database_url: str) -> ConnectionAddress:
    is_embedded = settings.database.url is None
    return ConnectionAddress.from_settings(settings.sql_views, database_url, is_embedded=is_embedded)


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


ResourceT = TypeVar("ResourceT", bound=_ClosableResource)


def _close_later(stack: AsyncExitStack, resource: ResourceT) -> ResourceT:
    """Register the close of a resource, and return the resource."""
    stack.push_async_callback(resource.close)
    return resource


def _close_later_if_configured(stack: AsyncExitStack, resource: ResourceT | None) -> ResourceT | None:
    return None if resource is None else _close_later(stack, resource)


@dataclass(frozen=True, slots=True)
class _Models:
    """The clients of all models that the settings name, and the extractors of plugins."""

    embedders: Embedders
    vision: VisionModel | None
    reranker: Reranker | None
    rewrite_model: ChatModel | None
    answer_models: AnswerModels | None
    enrichment_models: EnrichmentModels
    extractors: Extractors


async def _open_models(
    stack: AsyncExitStack,
    settings: Settings,
    control_plane: ControlPlaneDatabase,
    *,
    bulk_threads: int,
    opens_reranker: bool,
) -> _Models:
    """Create the clients of all models and check the embedding models.

    Raises the errors of ``create_embedders`` and ``create_reranker``.
    """
    models = settings.models
    embedders = await asyncio.to_thread(
        create_embedders, settings.embedding, bulk_threads=bulk_threads, rate_limit_store=control_plane
    )
    _close_later(stack, embedders)
    await embedders.check()
    vision = _close_later_if_configured(stack, create_vision_model(models))
    reranker = await asyncio.to_thread(create_reranker, settings.rerank) if opens_reranker else None
    _close_later_if_configured(stack, reranker)
    rewrite_model = await asyncio.to_thread(create_chat_model, models, models.rewrite_model or models.chat_model)
    _close_later_if_configured(stack, rewrite_model)
    answer_models = await asyncio.to_thread(create_answer_models, models)
    _close_later_if_configured(stack, answer_models)
    enrichment_models = _close_later(stack, await asyncio.to_thread(create_enrichment_models, models))
    extractors = await asyncio.to_thread(Extractors.from_installed_plugins)
    return _Models(embedders, vision, reranker, rewrite_model, answer_models, enrichment_models, extractors)


async def _open_sources(stack: AsyncExitStack, settings: Settings, embedders: Embedders) -> SourceClients:
    http = await asyncio.to_thread(HttpSourceClient.from_settings, settings.http_sources, detect_prompt_injection)
    pgvector = PgvectorClient(settings.pgvector_sources.bindings, embedders, detect_prompt_injection)
    return _close_later(stack, SourceClients(http, pgvector))


async def _open_webhook_sender(stack: AsyncExitStack, settings: Settings) -> WebhookSender:
    return _close_later(stack, await asyncio.to_thread(WebhookSender.from_settings, settings.webhooks))


def _open_page_image_context(stack: AsyncExitStack, settings: Settings) -> PageImageContext:
    context = PageImageContext.from_limits(
        memory_mb=settings.parser.max_memory_mb,
        cpu_timeout_seconds=settings.parser.cpu_timeout_seconds,
        timeout_seconds=settings.parser.timeout_seconds,
    )
    _close_later(stack, context.renderers)
    return context


def _open_transfer_slots(stack: AsyncExitStack, settings: Settings) -> TransferSlots:
    slots = TransferSlots.from_settings(settings.transfers)
    _close_later(stack, slots.readers)
    return slots


def _create_tenant_service(
    settings: Settings,
    control_plane: ControlPlaneDatabase,
    queue: JobQueue,
    authenticator: Authenticator,
    index_settings: IndexSettings,
) -> TenantService:
    async def provision_tenant(session: Session, tenant_id: UUID) -> None:
        await create_default_knowledge_base(session, tenant_id, index_settings)

    return TenantService(
        control_plane.database,
        control_plane,
        queue,
        authenticator.credential_cache,
        provision_tenant,
        _build_default_quotas(settings.quotas),
    )


@dataclass(frozen=True, slots=True)
class Resources:
    """Settings, connections, models, caches and limits that live as long as the process."""

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
    enrichment_models: EnrichmentModels
    sources: SourceClients
    extractors: Extractors
    queue: JobQueue
    change_feed: DocumentChangeFeed
    index_settings: IndexSettings
    preview_context: PreviewContext
    page_image_context: PageImageContext
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

    @property
    def routing_profile_builder(self) -> RoutingProfileBuilder:
        """The service that makes routing profiles, which choose the knowledge bases of a search."""
        return RoutingProfileBuilder(self.database, self.embedders, DocumentScope().list_visible_keys())

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        *,
        database_url: str,
        operator_key: str,
        bulk_threads: int,
        opens_reranker: bool = True,
    ) -> AsyncIterator[Self]:
        """Connect to everything, check it, and yield the resources. Close them at the end of the block.

        If an embedding endpoint does not answer, the service logs a warning and starts. Other errors of
        ``create_embedders`` and ``create_reranker`` are raised.

        Args:
            settings: The settings of the process.
            database_url: URL with the login of the service's role, which owns no tables.
            operator_key: API key that has the rights of the operator.
            bulk_threads: Number of threads of the embedded model for documents.
            opens_reranker: Whether the process reranks. A worker does not, so it does not load a local reranker.

        Raises:
            DatabaseRefused: The service cannot use the database.
            DatabaseUnavailable: The database does not answer.
            OidcExtraMissing: Tokens of an identity provider need another package.
            EmbeddingMismatch: The embedding model returns vectors of another size.
            EmbeddingRejected: The embedding endpoint refuses requests.
        """
        async with AsyncExitStack() as stack:
            database = _close_later(stack, Database.connect(database_url, pool_size=settings.database.pool_size))
            await database.check()
            control_plane = ControlPlaneDatabase(database)
            change_feed = _close_later(stack, DocumentChangeFeed(database))
            authenticator = _close_later(stack, create_authenticator(settings.identity, database, operator_key))
            sign_in_audit = _close_later(stack, SignInAuditLog(database, control_plane.find_rejected_key))
            meter = _close_later(stack, UsageMeter(database))
            objects = _close_later(stack, create_object_store(settings))
            models = await _open_models(
                stack, settings, control_plane, bulk_threads=bulk_threads, opens_reranker=opens_reranker
            )
            webhook_sender = await _open_webhook_sender(stack, settings)
            sources = await _open_sources(stack, settings, models.embedders)
            queue = JobQueue(database, control_plane, settings.worker.max_attempts)
            index_settings = _build_index_settings(models, sources)
            yield cls(
                settings=settings,
                database=database,
                control_plane=control_plane,
                objects=objects,
                embedders=models.embedders,
                query_vector_cache=QueryVectorCache(),
                routing_profile_cache=ProfileCache(),
                knowledge_base_cache=KnowledgeBaseCache(),
                search_costs=SearchCosts.from_pool_size(settings.database.pool_size),
                vision=models.vision,
                reranker=models.reranker,
                rewrite_model=models.rewrite_model,
                answer_models=models.answer_models,
                enrichment_models=models.enrichment_models,
                sources=sources,
                extractors=models.extractors,
                queue=queue,
                change_feed=change_feed,
                index_settings=index_settings,
                preview_context=_create_preview_context(settings, models.embedders, models.vision),
                page_image_context=_open_page_image_context(stack, settings),
                authenticator=authenticator,
                sign_in_audit=sign_in_audit,
                tenants=_create_tenant_service(settings, control_plane, queue, authenticator, index_settings),
                rate_limiter=SearchRateLimiter(database),
                local_limits=_build_local_limits(settings.quotas),
                meter=meter,
                webhook_sender=webhook_sender,
                worker_exits=WorkerExitHistory(),
                transfer_slots=_open_transfer_slots(stack, settings),
                tree_slots=create_tree_slots(),
                sql_view_address=_build_sql_view_address(settings, database_url),
            )

    def list_open_circuits(self) -> list[str]:
        """Return the names of the model endpoints whose circuit breaker is open in this process."""
        answer_models = self.answer_models
        clients: list[object] = [*self.embedders.all, self.reranker, self.rewrite_model]
        clients += [answer_models.answer_model, answer_models.analysis_model] if answer_models is not None else []
        breakers = [client.circuit_breaker for client in clients if isinstance(client, HasCircuitBreaker)]
        return sorted({breaker.name for breaker in breakers if breaker.is_open})

    def create_audit_service(self, tenant_id: UUID) -> AuditService:
        """Return the audit service of one tenant, for the operator. The tenant may already be deleted."""
        return AuditService(TenantDatabase(self.database, tenant_id))
