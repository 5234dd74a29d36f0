"""What one caller may do: every service is made when it is first asked for."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from app.agents.service import AgentService
from app.answering.service import AnsweringService
from app.audit.service import AuditService
from app.audit.types import Actor
from app.bootstrap.resources import Resources
from app.db.session import TenantDatabase
from app.documents.content.catalog import DocumentCatalog
from app.documents.content.image_service import ImageService
from app.documents.content.service import ContentService
from app.documents.deletion.service import DeletionService
from app.documents.service import DocumentService
from app.documents.upload.service import UploadService
from app.files.attachments import AttachmentService
from app.files.batch_worker import FileBatchWorker
from app.files.batches import FileBatchService
from app.files.service import FileService
from app.ingestion.parsers.registry import list_plugin_types, load_installed_parsers
from app.ingestion.preview.service import PreviewService
from app.knowledge_bases.prompt_versions import KnowledgeBasePromptService
from app.knowledge_bases.reindex_service import ReindexService
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.vector_stores import VectorStoreService
from app.principal import Principal
from app.quotas.service import QuotaService
from app.retrieval.service import RetrievalService
from app.sql_views.service import SqlViewService
from app.tenants.service import KeyService
from app.transfer.export_service import ExportService
from app.transfer.import_service import ImportService
from app.webhooks.service import WebhookService


@dataclass(frozen=True)
class TenantServices:
    """Everything one caller can do, with what the process holds."""

    principal: Principal
    resources: Resources

    @cached_property
    def db(self) -> TenantDatabase:
        """The database, as far as the caller's tenant goes."""
        return TenantDatabase(self.resources.database, self.principal.tenant_id)

    @cached_property
    def keys(self) -> KeyService:
        """The keys of the tenant."""
        return KeyService(self.db, self.resources.authenticator.credential_cache, Actor.from_principal(self.principal))

    @cached_property
    def knowledge_bases(self) -> KnowledgeBaseService:
        """Knowledge bases."""
        return KnowledgeBaseService(self.db, self.principal, self.resources.index_settings, self.resources.queue)

    @cached_property
    def reindexing(self) -> ReindexService:
        """Indexes that are built anew."""
        rollback_period = timedelta(seconds=self.resources.settings.worker.reindex_rollback_seconds)
        return ReindexService(self.db, self.knowledge_bases, self.resources.queue, rollback_period)

    @cached_property
    def prompts(self) -> KnowledgeBasePromptService:
        """Versions of knowledge bases' prompts."""
        return KnowledgeBasePromptService(self.db, self.knowledge_bases)

    @cached_property
    def sql_views(self) -> SqlViewService:
        """Knowledge bases as views for others' agents."""
        resources = self.resources
        is_allowed = resources.settings.sql_views.enabled
        return SqlViewService(self.db, self.knowledge_bases, resources.queue, resources.sql_view_address, is_allowed)

    @cached_property
    def agents(self) -> AgentService:
        """What agents are bound to."""
        return AgentService(self.db, self.principal)

    @cached_property
    def audit(self) -> AuditService:
        """What was done in the tenant."""
        return AuditService(self.db)

    @cached_property
    def documents(self) -> DocumentService:
        """Documents."""
        resources = self.resources
        limit = resources.settings.worker.tenant_concurrency
        return DocumentService(
            self.db, self.knowledge_bases, resources.objects, resources.queue, resources.change_feed, limit
        )

    @cached_property
    def deletions(self) -> DeletionService:
        """Deletions and their receipts."""
        return DeletionService(self.db, self.knowledge_bases, self.resources.queue)

    @cached_property
    def content(self) -> ContentService:
        """What was made of documents."""
        return ContentService(self.db, self.knowledge_bases, self.resources.tree_slots)

    @cached_property
    def catalog(self) -> DocumentCatalog:
        """Documents by their ids alone."""
        return DocumentCatalog(self.db, self.knowledge_bases)

    @cached_property
    def images(self) -> ImageService:
        """Pictures of documents."""
        return ImageService(self.db, self.knowledge_bases, self.resources.objects)

    @cached_property
    def uploads(self) -> UploadService:
        """Uploads."""
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
    def preview(self) -> PreviewService:
        """What would become of a file."""
        return PreviewService(self.db, self.knowledge_bases, self.resources.preview_context)

    @cached_property
    def retrieval(self) -> RetrievalService:
        """Search."""
        resources = self.resources
        return RetrievalService(
            self.db,
            self.knowledge_bases,
            resources.embedders,
            resources.query_vector_cache,
            self.quotas,
            resources.http_sources,
            resources.settings.server.retriever_candidates,
            resources.reranker,
            resources.rewrite_model,
            resources.routing_profile_cache,
            resources.knowledge_base_cache,
            resources.search_costs,
        )

    @cached_property
    def answering(self) -> AnsweringService:
        """Answers from what is found."""
        settings = self.resources.settings
        return AnsweringService(
            self.retrieval, self.resources.answer_models, settings.answers, settings.models.chat_timeout_seconds
        )

    @cached_property
    def quotas(self) -> QuotaService:
        """What the caller may use, and has used."""
        resources = self.resources
        max_upload_bytes = resources.settings.server.max_upload_bytes
        return QuotaService(
            self.db, self.principal, resources.rate_limiter, resources.meter, max_upload_bytes, resources.local_limits
        )

    @cached_property
    def exports(self) -> ExportService:
        """Knowledge bases on their way out."""
        resources = self.resources
        return ExportService(self.db, self.knowledge_bases, resources.objects, resources.transfer_slots.exports)

    @cached_property
    def imports(self) -> ImportService:
        """Knowledge bases on their way in."""
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
        """Knowledge bases as stores of files."""
        return VectorStoreService(self.knowledge_bases)

    @cached_property
    def files(self) -> FileService:
        """Files that are kept for themselves."""
        return FileService(self.db, self.knowledge_bases, self.deletions, self.resources.objects, self.quotas)

    @cached_property
    def vector_store_files(self) -> AttachmentService:
        """Files in knowledge bases."""
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
        """Files that are attached together."""
        return FileBatchService(self.db, self.knowledge_bases, self.deletions, self.resources.queue)

    @cached_property
    def file_batch_worker(self) -> FileBatchWorker:
        """What the job of a batch does."""
        return FileBatchWorker(self.db, self.knowledge_bases, self.vector_store_files)

    @cached_property
    def webhooks(self) -> WebhookService:
        """Who is told of what happens."""
        return WebhookService(
            self.db, self.principal, self.resources.webhook_sender.address_policy, self.resources.queue
        )
