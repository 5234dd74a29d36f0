"""Queries of the enrichment: documents, replies that were paid for, states and the tokens of the day."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.documents.types import CHUNKS_TYPE
from app.enrichment.prompt import PROMPT_VERSION
from app.enrichment.queue import PENDING_DOCUMENTS
from app.enrichment.reply import parse_stored_reply, to_stored_reply
from app.enrichment.stored_replies import StoredReply
from app.enrichment.types import (
    METHOD,
    DocumentEnrichmentState,
    EnrichedSection,
    EnrichmentState,
    EnrichmentTarget,
    EnrichmentWaitReason,
    Reservation,
    SectionNode,
)
from app.knowledge_bases.enrichment_settings import EnrichmentSettings
from app.warnings import ServiceWarning, WarningCode


@dataclass(frozen=True, slots=True)
class PaidCall:
    """Costs of a call: calls and tokens that were spent, and tokens that had been reserved on a day."""

    calls: int
    tokens: int
    reserved: int
    day: date


@dataclass(frozen=True, slots=True)
class DocumentProgress:
    """Progress of a document: sections and the sections that have a reply."""

    sections: int
    done: int
    warnings: Sequence[ServiceWarning] = ()


class EnrichmentRepository:
    """Queries of the enrichment of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def load_target(self, kb_id: UUID, document_id: UUID) -> EnrichmentTarget | None:
        """Return the live version of a document with its sections; None if it has none."""
        values = {"t": self.tenant_id, "kb": kb_id, "d": document_id}
        row = await self.session.fetch_row(_LOAD_DOCUMENT, values)
        if row is None:
            return None
        nodes = await self.session.fetch_rows(_LOAD_SECTIONS, values)
        chunks = await self.session.fetch_rows(_LOAD_CHUNKS, {**values, "i": row["index_id"], "provided": CHUNKS_TYPE})
        return EnrichmentTarget(
            kb_id=kb_id,
            document_id=document_id,
            version=row["live_version"],
            index_id=row["index_id"],
            has_graph=row["has_graph"],
            title=row["title"],
            text=row["content"],
            sections=[SectionNode(*node) for node in nodes],
            chunks=[(chunk["start_offset"], chunk["end_offset"]) for chunk in chunks],
            has_context_lines=any(chunk["has_line"] for chunk in chunks),
        )

    async def begin(self, target: EnrichmentTarget, settings_hash: bytes, sections: int) -> None:
        """Mark a document as running. The costs start at 0 for another version or other settings."""
        values = {**self._build_target_params(target), "hash": settings_hash, "sections": sections}
        await self.session.fetch_rows(_BEGIN, values)

    async def load_replies(self, document_id: UUID) -> dict[bytes, StoredReply]:
        """Return the replies of a document that were paid for, by their hash."""
        rows = await self.session.fetch_rows(_LOAD_REPLIES, {"t": self.tenant_id, "d": document_id})
        return {row[0]: StoredReply(parse_stored_reply(row[1]), row[2], row[3]) for row in rows}

    async def reserve(
        self, target: EnrichmentTarget, settings: EnrichmentSettings, tokens: int
    ) -> tuple[Reservation, date]:
        """Reserve tokens of the day before a call, if the limits of the document and of the day allow it.

        Args:
            target: The document.
            settings: Settings with the limits.
            tokens: Maximum cost of the call.

        Returns:
            The result, and the day that the tokens count for.
        """
        values = {**self._build_target_params(target), "amount": tokens}
        row = await self.session.fetch_row(_LOAD_COSTS, values)
        if row is None:
            return Reservation.OUTDATED, date.min
        day: date = row["day"]
        if row["tokens"] + tokens > settings.max_tokens_per_document:
            return Reservation.DOCUMENT_CAPPED, day
        values |= {"day": day, "limit": settings.max_tokens_per_day}
        if tokens > settings.max_tokens_per_day or await self.session.fetch_row(_RESERVE_DAY, values) is None:
            return Reservation.DAY_CAPPED, day
        return Reservation.GRANTED, day

    async def record_call(self, target: EnrichmentTarget, paid: PaidCall) -> None:
        """Replace a reservation by the real costs of a call."""
        values = {
            **self._build_target_params(target),
            "day": paid.day,
            "calls": paid.calls,
            "tokens": paid.tokens,
            "change": paid.tokens - paid.reserved,
        }
        await self.session.fetch_rows(_RECORD_DOCUMENT, values)
        await self.session.fetch_rows(_RECORD_DAY, values)

    async def add_reply(self, document_id: UUID, content_hash: bytes, stored: StoredReply) -> None:
        """Store a reply that was paid for. The caller has locked nothing; a deleted document stores nothing."""
        values = {
            "t": self.tenant_id,
            "d": document_id,
            "hash": content_hash,
            "reply": json.dumps(to_stored_reply(stored.reply), ensure_ascii=False),
            "tokens": stored.tokens,
            "estimated": stored.estimated_tokens,
        }
        await self.session.fetch_rows(_ADD_REPLY, values)

    async def record_progress(self, target: EnrichmentTarget, done: int) -> None:
        """Store the number of sections that have a reply."""
        await self.session.fetch_rows(_RECORD_PROGRESS, {**self._build_target_params(target), "done": done})

    async def lock_target(self, target: EnrichmentTarget) -> UUID | None:
        """Lock a document until the transaction ends, and return its scope; None if it has another version or index."""
        row = await self.session.fetch_row(_LOCK_TARGET, self._build_target_params(target))
        return None if row is None else row["scope_key"]

    async def replace_sections(self, target: EnrichmentTarget, sections: Sequence[EnrichedSection], model: str) -> None:
        """Store the summaries and keywords of sections, in place of those of earlier calls."""
        rows = [
            {
                "node_id": str(section.call.node_id),
                "hash": section.content_hash.hex(),
                "summary": section.reply.summary,
                "keywords": list(section.reply.keywords),
                "entities": [
                    {"name": entity.name, "type": entity.type, "score": entity.score}
                    for entity in section.reply.entities
                ],
                "tokens": section.tokens,
            }
            for section in sections
            if section.call.node_id is not None and section.reply.summary
        ]
        values = {"t": self.tenant_id, "d": target.document_id}
        details = {"method": METHOD, "model": model, "prompt": PROMPT_VERSION}
        await self.session.fetch_rows(_REMOVE_SECTIONS, values)
        await self.session.fetch_rows(_ADD_SECTIONS, {**values, **details, "rows": json.dumps(rows)})

    async def remove_other_replies(self, document_id: UUID, hashes: Sequence[bytes]) -> None:
        """Delete the replies of a document that its present version does not use."""
        values = {"t": self.tenant_id, "d": document_id, "hashes": list(hashes)}
        await self.session.fetch_rows(_REMOVE_REPLIES, values)

    async def set_state(self, document_id: UUID, state: EnrichmentState, progress: DocumentProgress | None) -> None:
        """Store the state of a document, with its sections and warnings if they are known."""
        values = {
            "t": self.tenant_id,
            "d": document_id,
            "state": state.value,
            "sections": None if progress is None else progress.sections,
            "done": None if progress is None else progress.done,
            "warnings": None if progress is None else json.dumps([warning.to_json() for warning in progress.warnings]),
        }
        await self.session.fetch_rows(_SET_STATE, values)

    async def set_waiting(self, document_id: UUID, reason: EnrichmentWaitReason, message: str) -> None:
        """Mark a document as queued, with a warning and what it waits for."""
        warning = ServiceWarning(WarningCode.PROCESSING_POSTPONED, message).to_json() | {"waiting_for": reason}
        values = {"t": self.tenant_id, "d": document_id, "warnings": json.dumps([warning])}
        await self.session.fetch_rows(_SET_WAITING, values)

    async def find_state(self, document_id: UUID) -> DocumentEnrichmentState | None:
        """Return the state of a document; None if it was never enqueued."""
        row = await self.session.fetch_row(_FIND_STATE, {"t": self.tenant_id, "d": document_id})
        return None if row is None else _parse_state(row)

    async def count_states(self, kb_id: UUID, settings_hash: bytes) -> dict[str, int]:
        """Return the number of documents of a knowledge base in each state, by its public name."""
        values = {"t": self.tenant_id, "kb": kb_id, "hash": settings_hash}
        counts = {state.public_name: 0 for state in EnrichmentState}
        for row in await self.session.fetch_rows(_COUNT_STATES, values):
            counts[EnrichmentState(row["state"]).public_name] += row["documents"]
        return counts

    async def find_wait_reason(self, kb_id: UUID) -> EnrichmentWaitReason | None:
        """Return what the documents of a knowledge base wait for; None if none waits for a model."""
        values = {"t": self.tenant_id, "kb": kb_id, "code": WarningCode.PROCESSING_POSTPONED.value}
        row = await self.session.fetch_row(_FIND_WAITING, values)
        return None if row is None else _find_wait_reason(row["warnings"])

    async def load_usage(self, owner_id: UUID) -> tuple[int, int]:
        """Return the calls and tokens of the day of a knowledge base, or of the tenant with the tenant's id."""
        row = await self.session.fetch_row(_LOAD_USAGE, {"t": self.tenant_id, "owner": owner_id})
        return (0, 0) if row is None else (row["calls"], row["tokens"])

    async def load_pending(
        self, kb_id: UUID, settings_hash: bytes, limit: int
    ) -> tuple[int, int, list[tuple[UUID, int]]]:
        """Return the number of pending documents and of their chunks, and a sample with the chunks of each.

        Args:
            kb_id: The knowledge base.
            settings_hash: Hash of its settings.
            limit: Maximum number of documents in the sample.
        """
        values = {"t": self.tenant_id, "kb": kb_id, "hash": settings_hash}
        rows = await self.session.fetch_rows(_SAMPLE_PENDING, {**values, "limit": limit})
        if not rows:
            return 0, 0, []
        return rows[0]["documents"], rows[0]["chunks"], [(row["id"], row["chunk_count"]) for row in rows]

    async def load_calibration(self, kb_id: UUID) -> tuple[int, int, int]:
        """Return the number of newest replies of a knowledge base, their tokens and their estimated tokens."""
        row = await self.session.fetch_row(_LOAD_CALIBRATION, {"t": self.tenant_id, "kb": kb_id})
        return (0, 0, 0) if row is None else (row["replies"], row["tokens"] or 0, row["estimated"] or 0)

    def _build_target_params(self, target: EnrichmentTarget) -> dict[str, Any]:
        return {
            "t": self.tenant_id,
            "kb": target.kb_id,
            "d": target.document_id,
            "v": target.version,
            "i": target.index_id,
        }


def _parse_state(row: Record) -> DocumentEnrichmentState:
    warnings: Sequence[Mapping[str, Any]] = row["warnings"]
    is_queued = row["state"] == EnrichmentState.QUEUED
    return DocumentEnrichmentState(
        state=EnrichmentState(row["state"]).public_name,
        sections=row["sections"],
        sections_done=row["sections_done"],
        calls=row["calls"],
        tokens=row["tokens"],
        waiting_for=_find_wait_reason(warnings) if is_queued else None,
        warnings=[{"code": warning["code"], "message": warning["message"]} for warning in warnings],
        updated_at=row["updated_at"],
    )


def _find_wait_reason(warnings: Sequence[Mapping[str, Any]]) -> EnrichmentWaitReason | None:
    """Return what a queued document with these warnings waits for. Rows of earlier versions wait for the chat model."""
    for warning in warnings:
        if warning["code"] == WarningCode.PROCESSING_POSTPONED:
            reason: EnrichmentWaitReason = warning.get("waiting_for", "chat_model")
            return reason
    return None


_LOAD_DOCUMENT = parse_statement("""
select d.live_version, i.id as index_id, i.graph is not null as has_graph, d.title, x.content
  from document d
  join search_index i on i.tenant_id = d.tenant_id and i.kb_id = d.kb_id and i.state = 'live'
  join document_text x on x.tenant_id = d.tenant_id and x.document_id = d.id and x.version = d.live_version
 where d.tenant_id = :t and d.kb_id = :kb and d.id = :d and d.live_version is not null""")
_LOAD_SECTIONS = parse_statement("""
select id, parent_id, title, start_offset, end_offset from node
 where tenant_id = :t and document_id = :d and kind in ('document', 'section') and :kb::uuid is not null
 order by ordinal""")
_LOAD_CHUNKS = parse_statement("""
select c.start_offset, c.end_offset, c.context_line is not null as has_line from chunk c
  join document d on d.tenant_id = c.tenant_id and d.id = c.document_id and d.media_type <> :provided
 where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d and c.index_id = :i and c.image_ordinal is null
 order by c.ordinal""")
_BEGIN = parse_statement("""
insert into document_enrichment (tenant_id, kb_id, document_id, state, version, index_id, settings_hash, sections)
values (:t, :kb, :d, 'running', :v, :i, :hash, :sections)
on conflict (tenant_id, document_id) do update
   set state = 'running', index_id = :i, sections = :sections, sections_done = 0, warnings = '[]', updated_at = now(),
       calls = case when document_enrichment.version = :v and document_enrichment.settings_hash = :hash
                    then document_enrichment.calls else 0 end,
       tokens = case when document_enrichment.version = :v and document_enrichment.settings_hash = :hash
                     then document_enrichment.tokens else 0 end,
       version = :v, settings_hash = :hash""")
_LOAD_REPLIES = parse_statement("""
select content_hash, reply, tokens, estimated_tokens from enrichment_result
 where tenant_id = :t and document_id = :d""")
_LOAD_COSTS = parse_statement("""
select e.tokens, (now() at time zone 'utc')::date as day
  from document_enrichment e
  join document d on d.tenant_id = e.tenant_id and d.id = e.document_id and d.live_version = :v
  join search_index i on i.tenant_id = d.tenant_id and i.kb_id = d.kb_id and i.state = 'live' and i.id = :i
  join knowledge_base k on k.tenant_id = d.tenant_id and k.id = d.kb_id and k.deleted_at is null
   and (k.enrichment ->> 'enabled')::boolean
 where e.tenant_id = :t and e.document_id = :d and d.kb_id = :kb and e.version = :v""")
_RESERVE_DAY = parse_statement("""
insert into enrichment_usage (tenant_id, day, owner_id, tokens) values (:t, :day, :kb, :amount)
on conflict (tenant_id, day, owner_id) do update set tokens = enrichment_usage.tokens + :amount
 where enrichment_usage.tokens + :amount <= :limit
returning 1""")
_RECORD_DOCUMENT = parse_statement("""
update document_enrichment set tokens = tokens + :tokens, calls = calls + :calls, updated_at = now()
 where tenant_id = :t and document_id = :d and version = :v""")
_RECORD_DAY = parse_statement("""
insert into enrichment_usage (tenant_id, day, owner_id, calls, tokens)
values (:t, :day, :kb, :calls, :change), (:t, :day, :t, :calls, :tokens)
on conflict (tenant_id, day, owner_id) do update
   set calls = enrichment_usage.calls + excluded.calls, tokens = enrichment_usage.tokens + excluded.tokens""")
_ADD_REPLY = parse_statement("""
insert into enrichment_result (tenant_id, document_id, content_hash, reply, tokens, estimated_tokens)
select d.tenant_id, d.id, :hash, :reply::jsonb, :tokens, :estimated from document d
 where d.tenant_id = :t and d.id = :d
on conflict (tenant_id, document_id, content_hash) do update set reply = excluded.reply, tokens = excluded.tokens""")
_RECORD_PROGRESS = parse_statement("""
update document_enrichment set sections_done = :done, updated_at = now()
 where tenant_id = :t and document_id = :d and version = :v""")
_LOCK_TARGET = parse_statement("""
select d.scope_key from document d
 where d.tenant_id = :t and d.kb_id = :kb and d.id = :d and d.live_version = :v
   and exists (select from search_index i where i.tenant_id = :t and i.kb_id = :kb and i.state = 'live' and i.id = :i)
   for no key update of d""")
_REMOVE_SECTIONS = parse_statement("delete from node_enrichment where tenant_id = :t and document_id = :d")
_ADD_SECTIONS = parse_statement("""
insert into node_enrichment (tenant_id, document_id, node_id, content_hash, summary, keywords, entities, method, model,
                             prompt_version, tokens)
select :t::uuid, :d::uuid, r.node_id, decode(r.hash, 'hex'), r.summary, r.keywords, r.entities, :method, :model,
       :prompt, r.tokens
  from jsonb_to_recordset(:rows::jsonb)
       r(node_id uuid, hash text, summary text, keywords jsonb, entities jsonb, tokens int)""")
_REMOVE_REPLIES = parse_statement("""
delete from enrichment_result
 where tenant_id = :t and document_id = :d and not content_hash = any(:hashes::bytea[])""")
_SET_STATE = parse_statement("""
update document_enrichment
   set state = :state, sections = coalesce(:sections, sections), sections_done = coalesce(:done, sections_done),
       warnings = coalesce(:warnings::jsonb, warnings), updated_at = now()
 where tenant_id = :t and document_id = :d""")
_SET_WAITING = parse_statement("""
update document_enrichment set state = 'queued', warnings = :warnings::jsonb, updated_at = now()
 where tenant_id = :t and document_id = :d""")
_FIND_STATE = parse_statement("""
select state, sections, sections_done, calls, tokens, warnings, updated_at
  from document_enrichment where tenant_id = :t and document_id = :d""")
_COUNT_STATES = parse_statement("""
select case when e.document_id is null then 'queued'
            when e.state = 'ready' and (e.version is distinct from d.live_version or e.index_id is distinct from i.id
                                        or e.settings_hash is distinct from :hash::bytea) then 'queued'
            else e.state end as state, count(*) as documents
  from document d
  join search_index i on i.tenant_id = d.tenant_id and i.kb_id = d.kb_id and i.state = 'live'
  left join document_enrichment e on e.tenant_id = d.tenant_id and e.document_id = d.id
 where d.tenant_id = :t and d.kb_id = :kb and d.live_version is not null group by 1""")
_FIND_WAITING = parse_statement("""
select warnings from document_enrichment
 where tenant_id = :t and kb_id = :kb and state = 'queued'
   and warnings @> jsonb_build_array(jsonb_build_object('code', :code::text)) order by updated_at desc limit 1""")
_LOAD_USAGE = parse_statement("""
select calls, tokens from enrichment_usage
 where tenant_id = :t and owner_id = :owner and day = (now() at time zone 'utc')::date""")
_SAMPLE_PENDING = parse_statement(f"""
with pending as ({PENDING_DOCUMENTS})
select id, chunk_count, count(*) over () as documents, (sum(chunk_count) over ())::bigint as chunks
  from pending order by md5(id::text) limit :limit""")  # noqa: S608  (constants)
_LOAD_CALIBRATION = parse_statement("""
select count(*) as replies, sum(tokens)::bigint as tokens, sum(estimated_tokens)::bigint as estimated
  from (select r.tokens, r.estimated_tokens from document_enrichment e
          join enrichment_result r on r.tenant_id = e.tenant_id and r.document_id = e.document_id
         where e.tenant_id = :t and e.kb_id = :kb order by r.created_at desc limit 500) r""")
