"""The services of one caller. Each is created at its first use."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial

from app.agents.service import AgentService
from app.answering.service import AnsweringService
from app.audit.service import AuditService
from app.audit.types import Actor
from app.bootstrap.resources import Resources
from app.db.session import TenantDatabase
from app.documents.change_stream import DocumentChangeService
from app.documents.chunk_service import DocumentChunkService
from app.documents.content.catalog import DocumentCatalog
from app.documents.content.image_service import ImageService
from app.documents.content.service import ContentService
from app.documents.deletion.service import DeletionService
from app.documents.service import DocumentService
from app.documents.upload.service import UploadService
from app.enrichment.service import EnrichmentService
from app.evaluations.evaluation_service import EvaluationService
from app.evaluations.golden_set_service import GoldenSetService
from app.evaluations.runner import EvaluationRunner
from app.files.attachments import AttachmentService
from app.files.batch_worker import FileBatchWorker
from app.files.batches import FileBatchService
from app.files.service import FileService
from app.graph.entities.correction_service import CorrectionService
from app.graph.entities.service import EntityService
from app.graph.includes.service import ChunkIncludeService
from app.ingestion.page_images.service import PageImageService
from app.ingestion.parsers.registry import list_plugin_types, load_installed_parsers
from app.ingestion.preview.service import PreviewService
from app.job_control.service import JobService
from app.knowledge_bases.prompt_versions import KnowledgeBasePromptService
from app.knowledge_bases.reindex_service import ReindexService
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.vector_stores import VectorStoreService
from app.principal import Principal
from app.quotas.service import QuotaService
from app.retrieval.quota import search_within_quota
from app.retrieval.service import RetrievalService
from app.sql_views.service import SqlViewService
from app.tenants.service import KeyService
from app.transfer.export_service import ExportService
from app.transfer.import_service import ImportService
from app.webhooks.service import WebhookService


@dataclass(frozen=True)
class TenantServices:
    """All services of one caller, with the resources of the process."""

    principal: Principal
    resources: Resources

    @cached_property
    def db(self) -> TenantDatabase:
        """The database in the scope of the caller's tenant."""
        return TenantDatabase(self.resources.database, self.principal.tenant_id)

    @cached_property
    def keys(self) -> KeyService:
        """Service for the tenant's API keys."""
        return KeyService(self.db, self.resources.authenticator.credential_cache, Actor.from_principal(self.principal))

    @cached_property
    def knowledge_bases(self) -> KnowledgeBaseService:
        """Service for knowledge bases."""
        resources = self.resources
        embed_texts = resources.routing_profile_builder.embed_texts_at_once
        return KnowledgeBaseService(self.db, self.principal, resources.index_settings, resources.queue, embed_texts)

    @cached_property
    def reindexing(self) -> ReindexService:
        """Service for reindex and rollback."""
        rollback_period = timedelta(seconds=self.resources.settings.worker.reindex_rollback_seconds)
        return ReindexService(self.db, self.knowledge_bases, self.resources.queue, rollback_period)

    @cached_property
    def prompts(self) -> KnowledgeBasePromptService:
        """Service for prompt versions of knowledge bases."""
        return KnowledgeBasePromptService(self.db, self.knowledge_bases)

    @cached_property
    def enrichment(self) -> EnrichmentService:
        """Service for the enrichment of documents by a chat model."""
        resources = self.resources
        return EnrichmentService(self.db, self.knowledge_bases, resources.queue, resources.enrichment_models)

    @cached_property
    def sql_views(self) -> SqlViewService:
        """Service for SQL views."""
        resources = self.resources
        is_allowed = resources.settings.sql_views.enabled
        return SqlViewService(self.db, self.knowledge_bases, resources.queue, resources.sql_view_address, is_allowed)

    @cached_property
    def agents(self) -> AgentService:
        """Service for agent bindings."""
        return AgentService(self.db, self.principal)

    @cached_property
    def audit(self) -> AuditService:
        """Service for the tenant's audit events."""
        return AuditService(self.db)

    @cached_property
    def documents(self) -> DocumentService:
        """Service for documents."""
        resources = self.resources
        limit = resources.settings.worker.tenant_concurrency
        return DocumentService(
            self.db, self.knowledge_bases, resources.objects, resources.queue, resources.change_feed, limit
        )

    @cached_property
    def document_changes(self) -> DocumentChangeService:
        """Service that follows the documents of a knowledge base."""
        resources = self.resources
        limit = resources.settings.worker.tenant_concurrency
        return DocumentChangeService(self.db, self.knowledge_bases, resources.change_feed, limit)

    @cached_property
    def deletions(self) -> DeletionService:
        """Service for deletions and their receipts."""
        return DeletionService(self.db, self.knowledge_bases, self.resources.queue)

    @cached_property
    def jobs(self) -> JobService:
        """Service for the list of jobs and their retry."""
        return JobService(self.db, self.principal, self.resources.settings.worker.tenant_concurrency)

    @cached_property
    def content(self) -> ContentService:
        """Service for texts, trees and chunks of documents."""
        return ContentService(self.db, self.knowledge_bases, self.resources.tree_slots)

    @cached_property
    def catalog(self) -> DocumentCatalog:
        """Service that finds documents by id, in all knowledge bases of the caller."""
        return DocumentCatalog(self.db, self.knowledge_bases)

    @cached_property
    def entities(self) -> EntityService:
        """Service for the entities of knowledge bases."""
        return EntityService(self.db, self.knowledge_bases)

    @cached_property
    def corrections(self) -> CorrectionService:
        """Service for corrections of entities."""
        return CorrectionService(self.db, self.knowledge_bases, self.entities)

    @cached_property
    def chunk_includes(self) -> ChunkIncludeService:
        """Service that adds entities, keywords and summaries to chunks."""
        return ChunkIncludeService(self.db)

    @cached_property
    def images(self) -> ImageService:
        """Service for images of documents."""
        return ImageService(self.db, self.knowledge_bases, self.resources.objects)

    @cached_property
    def page_images(self) -> PageImageService:
        """Service for images of the pages of documents."""
        resources = self.resources
        return PageImageService(self.db, self.knowledge_bases, resources.objects, resources.page_image_context)

    @cached_property
    def uploads(self) -> UploadService:
        """Service for uploads."""
        return UploadService(
            db=self.db,
            knowledge_bases=self.knowledge_bases,
            documents=self.documents,
            objects=self.resources.objects,
            queue=self.resources.queue,
            parseable_types=load_installed_parsers().keys(),
            plugin_types=list_plugin_types(load_installed_parsers()),
            quotas=self.quotas,
        )

    @cached_property
    def document_chunks(self) -> DocumentChunkService:
        """Service that changes the chunks of documents."""
        resources = self.resources
        return DocumentChunkService(
            self.db, self.knowledge_bases, self.documents, resources.objects, resources.queue, self.quotas
        )

    @cached_property
    def preview(self) -> PreviewService:
        """Service that shows the chunks of a file without storing it."""
        return PreviewService(self.db, self.knowledge_bases, self.resources.preview_context)

    @cached_property
    def retrieval(self) -> RetrievalService:
        """Service for searches."""
        resources = self.resources
        return RetrievalService(
            self.db,
            self.knowledge_bases,
            resources.embedders,
            resources.query_vector_cache,
            self.quotas,
            resources.sources,
            resources.settings.server.retriever_candidates,
            resources.reranker,
            resources.rewrite_model,
            resources.routing_profile_cache,
            resources.knowledge_base_cache,
            resources.search_costs,
            resources.settings.server.max_rewritten_sources,
        )

    @cached_property
    def golden_sets(self) -> GoldenSetService:
        """Service for golden sets."""
        return GoldenSetService(self.db, self.principal)

    @cached_property
    def evaluations(self) -> EvaluationService:
        """Service for evaluations."""
        return EvaluationService(self.db, self.principal, self.knowledge_bases, self.resources.queue)

    @cached_property
    def evaluation_runner(self) -> EvaluationRunner:
        """Job of evaluations."""
        return EvaluationRunner(self.db, partial(search_within_quota, self.retrieval))

    @cached_property
    def answering(self) -> AnsweringService:
        """Service for answers with citations."""
        settings = self.resources.settings
        return AnsweringService(
            self.retrieval, self.resources.answer_models, settings.answers, settings.models.chat_timeout_seconds
        )

    @cached_property
    def quotas(self) -> QuotaService:
        """Service for quotas, rate limits and usage of the caller."""
        resources = self.resources
        max_upload_bytes = resources.settings.server.max_upload_bytes
        return QuotaService(
            self.db, self.principal, resources.rate_limiter, resources.meter, max_upload_bytes, resources.local_limits
        )

    @cached_property
    def exports(self) -> ExportService:
        """Service that exports knowledge bases."""
        resources = self.resources
        return ExportService(self.db, self.knowledge_bases, resources.objects, resources.transfer_slots.exports)

    @cached_property
    def imports(self) -> ImportService:
        """Service that imports knowledge bases."""
        resources = self.resources
        return ImportService(
            self.db,
            self.knowledge_bases,
            resources.objects,
            resources.queue,
            self.quotas,
            resources.transfer_slots.imports,
            resources.transfer_slots.capacity,
            resources.transfer_slots.readers,
            resources.settings.parser.max_characters,
        )

    @cached_property
    def vector_stores(self) -> VectorStoreService:
        """Service for the vector stores of the OpenAI API, which are knowledge bases."""
        return VectorStoreService(self.knowledge_bases)

    @cached_property
    def files(self) -> FileService:
        """Service for stored files."""
        return FileService(self.db, self.knowledge_bases, self.deletions, self.resources.objects, self.quotas)

    @cached_property
    def vector_store_files(self) -> AttachmentService:
        """Service that attaches stored files to knowledge bases."""
        return AttachmentService(
            self.db,
            self.knowledge_bases,
            self.files,
            self.documents,
            self.uploads,
            self.deletions,
            self.content,
            self.resources.objects,
        )

    @cached_property
    def file_batches(self) -> FileBatchService:
        """Service for file batches."""
        return FileBatchService(self.db, self.knowledge_bases, self.deletions, self.resources.queue)

    @cached_property
    def file_batch_worker(self) -> FileBatchWorker:
        """Service that attaches the files of a batch, called by the batch's job."""
        return FileBatchWorker(self.db, self.knowledge_bases, self.vector_store_files)

    @cached_property
    def webhooks(self) -> WebhookService:
        """Service for webhooks."""
        return WebhookService(
            self.db, self.principal, self.resources.webhook_sender.address_policy, self.resources.queue
        )
