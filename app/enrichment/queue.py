"""Jobs of the enrichment: documents that are not enriched yet get one."""

from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.enrichment.types import ENRICH_JOB
from app.jobs.queue import CHANNEL, MAINTENANCE, JobQueue


async def enqueue_document(session: Session, queue: JobQueue, document: DocumentRow, *, uploader: UUID) -> None:
    """Enqueue the enrichment of a document that has a new version.

    Args:
        session: The transaction that makes the version live.
        queue: Job queue.
        document: The document. Its knowledge base enriches documents.
        uploader: API key that uploaded the version.
    """
    values = {"t": document.tenant_id, "kb": document.kb_id, "d": document.id}
    await session.fetch_rows(_MARK_QUEUED, values)
    payload = {"knowledge_base": str(document.kb_id), "document": str(document.id), "key": str(uploader)}
    await queue.enqueue(session, ENRICH_JOB, tenant_id=document.tenant_id, payload=payload, priority=MAINTENANCE)


async def enqueue_pending(
    session: Session, queue: JobQueue, *, tenant_id: UUID, kb_id: UUID, settings_hash: bytes | None = None
) -> int:
    """Enqueue all documents of a knowledge base that are not enriched, and make its postponed jobs due now.

    Documents that wait for a job are not enqueued again. Without enrichment nothing happens.

    Args:
        session: The caller's transaction.
        queue: Job queue.
        tenant_id: Tenant of the knowledge base.
        kb_id: The knowledge base.
        settings_hash: Hash of the present settings. With None, other settings are no reason to enqueue a document.

    Returns:
        Number of documents that were enqueued or became due.
    """
    values = {"t": tenant_id, "kb": kb_id, "kind": ENRICH_JOB}
    resumed = await session.fetch_rows(_RESUME, values)
    jobs = {"priority": MAINTENANCE, "max": queue.max_attempts, "hash": settings_hash}
    enqueued = await session.fetch_rows(_ENQUEUE_PENDING, {**values, **jobs})
    return len(resumed) + len(enqueued)


PENDING_DOCUMENTS = """
  select d.id, d.chunk_count from document d
    join search_index i on i.tenant_id = d.tenant_id and i.kb_id = d.kb_id and i.state = 'live'
    left join document_enrichment e on e.tenant_id = d.tenant_id and e.document_id = d.id
   where d.tenant_id = :t and d.kb_id = :kb and d.live_version is not null
     and (e.document_id is null or e.state <> 'ready' or e.version is distinct from d.live_version
          or e.index_id is distinct from i.id
          or (:hash::bytea is not null and e.settings_hash is distinct from :hash))"""
"""Documents whose live version is not enriched by the settings with the hash ``:hash``."""

_MARK_QUEUED = parse_statement("""
insert into document_enrichment (tenant_id, kb_id, document_id, state) values (:t, :kb, :d, 'queued')
on conflict (tenant_id, document_id) do update set state = 'queued', updated_at = now()""")
_RESUME = parse_statement(f"""
with resumed as (
  update job set run_at = now()
   where tenant_id = :t and kind = :kind and payload ->> 'knowledge_base' = (:kb::uuid)::text and state = 'ready'
     and run_at > now()
  returning id
) select id, pg_notify('{CHANNEL}', '') from resumed""")  # noqa: S608  (constants)
_ENQUEUE_PENDING = parse_statement(f"""
with pending as ({PENDING_DOCUMENTS}
     and exists (select from knowledge_base k where k.tenant_id = :t and k.id = :kb and k.deleted_at is null
                    and (k.enrichment ->> 'enabled')::boolean)
     and (e.state in ('ready', 'stopped', 'failed')
          or not exists (select from job j where j.tenant_id = :t and j.kind = :kind and j.state <> 'dead'
                            and j.payload ->> 'document' = d.id::text))
), marked as (
  insert into document_enrichment (tenant_id, kb_id, document_id, state)
  select :t, :kb, id, 'queued' from pending
  on conflict (tenant_id, document_id) do update set state = 'queued', updated_at = now()
  returning document_id
), added as (
  insert into job (tenant_id, id, kind, payload, priority, max_attempts)
  select :t, gen_random_uuid(), :kind, jsonb_build_object('knowledge_base', :kb::uuid, 'document', document_id),
         :priority, :max from marked
  returning id
) select id, pg_notify('{CHANNEL}', '') from added""")  # noqa: S608  (constants)
