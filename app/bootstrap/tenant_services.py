"""What one caller may do: every service is made when it is first asked for."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from app.access import Principal
from app.agents.service import AgentService
from app.answering.service import AnsweringService
from app.audit.service import AuditService
from app.audit.types import Actor
from app.db.session import TenantDatabase
from app.documents.attachments import AttachmentService
from app.documents.batch_attaching import BatchAttaching
from app.documents.deletion import DeletionService
from app.documents.file_batches import FileBatchService
from app.documents.files import FileService
from app.documents.library import LibraryService
from app.documents.media import MediaService
from app.documents.reading import ReadingService
from app.documents.service import DocumentService
from app.documents.uploading import UploadService
from app.ingestion.parsers.installed import installed_parsers, plugin_types
from app.ingestion.preview import PreviewService
from app.knowledge_bases.prompting import KnowledgeBasePrompts
from app.knowledge_bases.reindexing import ReindexService
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.stores import StoreService
from app.publications.service import PublicationService
from app.quotas.service import QuotaService
from app.retrieval.service import RetrievalService
from app.tenants.service import KeyService
from app.transfer.exporting import ExportService
from app.transfer.importing import ImportService
from app.webhooks.service import WebhookService

if TYPE_CHECKING:
    from app.bootstrap.resources import Resources


@dataclass(frozen=True)
class TenantServices:
    """Everything one caller can do, with what the process holds."""

    principal: Principal
    resources: "Resources"

    @cached_property
    def db(self) -> TenantDatabase:
        """The database, as far as the caller's tenant goes."""
        return TenantDatabase(self.resources.database, self.principal.tenant_id)

    @cached_property
    def keys(self) -> KeyService:
        """The keys of the tenant."""
        return KeyService(self.db, self.resources.authenticator.known, Actor.of(self.principal))

    @cached_property
    def knowledge_bases(self) -> KnowledgeBaseService:
        """Knowledge bases."""
        return KnowledgeBaseService(self.db, self.principal, self.resources.index_settings, self.resources.queue)

    @cached_property
    def reindexing(self) -> ReindexService:
        """Indexes that are built anew."""
        undo = timedelta(seconds=self.resources.settings.worker.reindex_undo_seconds)
        return ReindexService(self.db, self.knowledge_bases, self.resources.queue, undo)

    @cached_property
    def prompts(self) -> KnowledgeBasePrompts:
        """Versions of knowledge bases' prompts."""
        return KnowledgeBasePrompts(self.db, self.knowledge_bases)

    @cached_property
    def publications(self) -> PublicationService:
        """Knowledge bases as views for others' agents."""
        held = self.resources
        allowed = held.settings.publication.allowed
        return PublicationService(self.db, self.knowledge_bases, held.queue, held.address, allowed)

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
        held = self.resources
        limit = held.settings.worker.tenant_concurrency
        return DocumentService(self.db, self.knowledge_bases, held.objects, held.queue, held.watch, limit)

    @cached_property
    def deletions(self) -> DeletionService:
        """Deletions and their receipts."""
        return DeletionService(self.db, self.knowledge_bases, self.resources.queue)

    @cached_property
    def reading(self) -> ReadingService:
        """What was made of documents."""
        return ReadingService(self.db, self.knowledge_bases, self.resources.trees)

    @cached_property
    def library(self) -> LibraryService:
        """Documents by their ids alone."""
        return LibraryService(self.db, self.knowledge_bases)

    @cached_property
    def media(self) -> MediaService:
        """Pictures of documents."""
        return MediaService(self.db, self.knowledge_bases, self.resources.objects)

    @cached_property
    def uploads(self) -> UploadService:
        """Uploads."""
        return UploadService(
            db=self.db,
            knowledge_bases=self.knowledge_bases,
            documents=self.documents,
            objects=self.resources.objects,
            queue=self.resources.queue,
            parseable=installed_parsers().keys(),
            plugin_types=plugin_types(installed_parsers()),
            quotas=self.quotas,
        )

    @cached_property
    def preview(self) -> PreviewService:
        """What would become of a file."""
        return PreviewService(self.db, self.knowledge_bases, self.resources.previews)

    @cached_property
    def retrieval(self) -> RetrievalService:
        """Search."""
        held = self.resources
        return RetrievalService(
            self.db,
            self.knowledge_bases,
            held.embedders,
            held.known_vectors,
            self.quotas,
            held.http_sources,
            held.settings.server.lane_rows,
            held.reranker,
            held.rewriter,
            held.known_profiles,
            held.known_knowledge_bases,
            held.search_costs,
        )

    @cached_property
    def answering(self) -> AnsweringService:
        """Answers from what is found."""
        settings = self.resources.settings
        return AnsweringService(
            self.retrieval, self.resources.answerers, settings.answers, settings.models.chat_timeout_seconds
        )

    @cached_property
    def quotas(self) -> QuotaService:
        """What the caller may use, and has used."""
        held = self.resources
        most = held.settings.server.max_upload_bytes
        return QuotaService(self.db, self.principal, held.rates, held.meter, most, held.local_limits)

    @cached_property
    def exports(self) -> ExportService:
        """Knowledge bases on their way out."""
        held = self.resources
        return ExportService(self.db, self.knowledge_bases, held.objects, held.transfers.exports)

    @cached_property
    def imports(self) -> ImportService:
        """Knowledge bases on their way in."""
        held = self.resources
        return ImportService(
            self.db,
            self.knowledge_bases,
            held.objects,
            held.queue,
            self.quotas,
            held.transfers.imports,
            held.transfers.room,
            held.transfers.readers,
            held.settings.parser.max_characters,
        )

    @cached_property
    def stores(self) -> StoreService:
        """Knowledge bases as stores of files."""
        return StoreService(self.knowledge_bases)

    @cached_property
    def files(self) -> FileService:
        """Files that are kept for themselves."""
        return FileService(self.db, self.knowledge_bases, self.deletions, self.resources.objects, self.quotas)

    @cached_property
    def attachments(self) -> AttachmentService:
        """Files in knowledge bases."""
        return AttachmentService(
            self.db,
            self.knowledge_bases,
            self.files,
            self.documents,
            self.uploads,
            self.deletions,
            self.reading,
            self.resources.objects,
        )

    @cached_property
    def file_batches(self) -> FileBatchService:
        """Files that are attached together."""
        return FileBatchService(self.db, self.knowledge_bases, self.deletions, self.resources.queue)

    @cached_property
    def batch_attaching(self) -> BatchAttaching:
        """What the job of a batch does."""
        return BatchAttaching(self.db, self.knowledge_bases, self.attachments)

    @cached_property
    def webhooks(self) -> WebhookService:
        """Who is told of what happens."""
        return WebhookService(self.db, self.principal, self.resources.webhooks.gate, self.resources.queue)
