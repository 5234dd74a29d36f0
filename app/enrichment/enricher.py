"""The job that enriches a document: one call of the chat model a section, each paid for once."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID

from app.db.session import TenantDatabase
from app.enrichment.calls import MAX_ATTEMPTS, CallFailed, CallResult, call_model
from app.enrichment.graph_repository import EnrichedGraphRepository
from app.enrichment.graph_rows import compute_graph_changes
from app.enrichment.models import EnrichmentModels
from app.enrichment.plan import plan_calls
from app.enrichment.prompt import (
    build_material,
    build_task,
    compute_settings_hash,
    join_ranges,
    list_passages,
    locate_lines,
    select_parts,
)
from app.enrichment.reply import list_summaries
from app.enrichment.repository import DocumentProgress, EnrichmentRepository, PaidCall
from app.enrichment.stored_replies import LINES, StoredReply, match_reply
from app.enrichment.tokens import estimate_call, limit_call
from app.enrichment.types import (
    ContextLineWriter,
    EnrichedSection,
    EnrichmentCapped,
    EnrichmentState,
    EnrichmentTarget,
    EnrichmentWaiting,
    EnrichmentWaitReason,
    PlannedCall,
    Reservation,
    SectionReply,
)
from app.inference.chat import ChatModel, ChatNotConfigured
from app.inference.embedding import EmbeddingUnavailable
from app.knowledge_bases.enrichment_settings import EnrichmentSettings
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.logging import get_logger
from app.quotas.types import DailyTokenLimitReached
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

MAX_REFUSALS = 3
"""Number of refused calls in a row after which the enrichment of a document fails."""

RETRY_DELAY_SECONDS = 20.0
"""Seconds until the next attempt if the chat model does not answer."""


class DocumentOutdated(Exception):
    """The document, its search index or the settings changed during the enrichment."""


@dataclass(frozen=True, slots=True)
class TokenReservation:
    """Result of a reservation: number of attempts at the call, their tokens, and the day that counts them."""

    result: Reservation
    attempts: int
    tokens: int
    day: date


@dataclass(slots=True)
class _Run:
    """Enrichment of one version of a document.

    Attributes:
        target: The document.
        settings: Settings of the knowledge base.
        model: Chat model.
        calls: Planned calls.
        replies: Replies that were paid for, by their hash.
        sections: Enriched sections, by the position of their call.
        refused: Number of refused calls.
        refused_in_a_row: Number of refused calls since the last reply.
    """

    target: EnrichmentTarget
    settings: EnrichmentSettings
    model: ChatModel
    calls: Sequence[PlannedCall]
    replies: dict[bytes, StoredReply]
    sections: dict[int, EnrichedSection] = field(default_factory=dict)
    refused: int = 0
    refused_in_a_row: int = 0

    @property
    def progress(self) -> DocumentProgress:
        """Progress with warnings about sections and items that were left out."""
        replies = [section.reply for section in self.sections.values()]
        skipped = sum(reply.is_skipped for reply in replies) + self.refused
        dropped = sum(reply.dropped for reply in replies)
        warnings = []
        if skipped:
            message = f"The chat model gave no valid reply about {skipped} of {len(self.calls)} sections."
            warnings.append(ServiceWarning(WarningCode.ENRICHMENT_SECTIONS_SKIPPED, message))
        if dropped:
            message = f"{dropped} entities and relations of the chat model were dropped, as the text lacks them."
            warnings.append(ServiceWarning(WarningCode.ENRICHMENT_ITEMS_DROPPED, message))
        return DocumentProgress(len(self.calls), len(self.sections), warnings)


@dataclass(frozen=True, slots=True)
class DocumentEnricher:
    """Enricher of documents.

    Attributes:
        models: Chat models.
        apply_lines: Embeds and indexes the chunks of a document with its context lines.
    """

    models: EnrichmentModels
    apply_lines: ContextLineWriter

    async def enrich(
        self, db: TenantDatabase, kb_id: UUID, document_id: UUID, check_preemption: Callable[[], None]
    ) -> None:
        """Enrich the live version of a document. A repeated call pays for no reply again.

        Args:
            db: Database of the tenant.
            kb_id: The knowledge base.
            document_id: The document.
            check_preemption: Raises JobPreempted if the job must give its place to another tenant.

        Raises:
            EnrichmentWaiting: A model does not answer, or the daily budget of embedding tokens is used up.
            EnrichmentCapped: The day's tokens are used up.
            JobPreempted: The job must give its place to another tenant.
        """
        while True:
            run = await self._begin(db, kb_id, document_id)
            if run is None:
                return
            try:
                await self._run(db, run, check_preemption)
                return
            except DocumentOutdated:
                continue

    async def mark_failed(self, db: TenantDatabase, document_id: UUID) -> None:
        """Mark the enrichment of a document as failed, after the last attempt of its job."""
        async with db.transaction() as session:
            await EnrichmentRepository(session, db.tenant_id).set_state(document_id, EnrichmentState.FAILED, None)

    async def _begin(self, db: TenantDatabase, kb_id: UUID, document_id: UUID) -> _Run | None:
        """Load a document and plan its calls; None if it is deleted or must not be enriched."""
        async with db.transaction() as session:
            kb = await KnowledgeBaseRepository(session, db.tenant_id).find(kb_id)
            repository = EnrichmentRepository(session, db.tenant_id)
            target = None if kb is None else await repository.load_target(kb_id, document_id)
            if kb is None or target is None:
                return None
            settings = kb.enrichment
            if not settings.enabled:
                await repository.set_state(document_id, EnrichmentState.STOPPED, None)
                return None
            replies = await repository.load_replies(document_id)
        try:
            model = self.models.get(settings.model)
        except ChatNotConfigured as exc:
            until = _get_next_attempt(exc.retry_after)
            raise await self._postpone(db, document_id, "chat_model", exc.message, until) from exc
        calls = await asyncio.to_thread(plan_calls, target.text, target.sections)
        async with db.transaction() as session:
            settings_hash = compute_settings_hash(model.name, settings.parts)
            await EnrichmentRepository(session, db.tenant_id).begin(target, settings_hash, len(calls))
        return _Run(target, settings, model, calls, replies)

    async def _run(self, db: TenantDatabase, run: _Run, check_preemption: Callable[[], None]) -> None:
        for position, call in enumerate(run.calls):
            check_preemption()
            capped = await self._enrich_section(db, run, position, call)
            if capped is not None:
                await self._store(db, run, EnrichmentState.CAPPED)
                if capped is Reservation.DAY_CAPPED:
                    raise EnrichmentCapped(_get_next_day())
                return
            if run.refused_in_a_row >= MAX_REFUSALS:
                break
        has_failed = run.refused_in_a_row >= MAX_REFUSALS or (run.refused > 0 and not run.sections)
        await self._store(db, run, EnrichmentState.FAILED if has_failed else EnrichmentState.READY)
        logger.info("enrichment.done", document=str(run.target.document_id), sections=len(run.sections))

    async def _enrich_section(
        self, db: TenantDatabase, run: _Run, position: int, call: PlannedCall
    ) -> Reservation | None:
        """Add the reply of one call, which may be stored. Return the limit that forbids the call, or None."""
        target, parts = run.target, select_parts(call, run.settings.parts)
        if not parts:
            run.sections[position] = EnrichedSection(call, SectionReply(), b"", 0)
            return None
        summaries = list_summaries(run.sections[child].reply for child in call.children if child in run.sections)
        text = join_ranges(target.text, call)
        material = build_material(target.title, call, text, summaries)
        match = match_reply(run.replies, run.model.name, parts, material)
        stored = match.stored
        if stored is None or match.missing:
            passages = list_passages(call, target.chunks) if LINES in match.missing else None
            material = build_material(target.title, call, text, summaries, passages)
            prompt = (build_task(match.missing), material)
            reservation = await self._reserve(db, run, prompt, match.missing, len(passages or ()))
            if reservation.result is not Reservation.GRANTED:
                return reservation.result
            paid = await self._call_model(db, run, prompt, (text, passages or ()), match.missing, reservation)
            if paid is None:
                run.refused += 1
                run.refused_in_a_row += 1
                return None
            estimated = estimate_call(prompt, match.missing, len(passages or ()))
            stored = match.complete(paid.reply, tokens=paid.tokens, estimated_tokens=estimated)
            await self._record(db, run, match.content_hash, stored, paid, reservation)
        run.refused_in_a_row = 0
        run.sections[position] = EnrichedSection(call, stored.reply, match.content_hash, stored.tokens)
        return None

    async def _reserve(
        self, db: TenantDatabase, run: _Run, prompt: tuple[str, str], parts: Sequence[str], lines: int
    ) -> TokenReservation:
        """Reserve the tokens of a call and of its repair, or of the call alone if there are no more.

        Raises:
            DocumentOutdated: The document or the settings changed.
        """
        tokens = limit_call(prompt, parts, lines)
        result, day = Reservation.OUTDATED, date.min
        for attempts in (MAX_ATTEMPTS, 1):
            async with db.transaction() as session:
                repository = EnrichmentRepository(session, db.tenant_id)
                result, day = await repository.reserve(run.target, run.settings, attempts * tokens)
            if result is Reservation.OUTDATED:
                raise DocumentOutdated
            if result is Reservation.GRANTED:
                return TokenReservation(result, attempts, attempts * tokens, day)
        return TokenReservation(result, 0, 0, day)

    async def _call_model(
        self,
        db: TenantDatabase,
        run: _Run,
        prompt: tuple[str, str],
        read: tuple[str, Sequence[tuple[int, int]]],
        parts: Sequence[str],
        reservation: TokenReservation,
    ) -> CallResult | None:
        """Call the chat model about a text and its passages; None if it refuses the section.

        Raises:
            EnrichmentWaiting: The chat model does not answer.
        """
        text, passages = read
        try:
            return await call_model(
                run.model,
                prompt,
                text,
                parts,
                passages=passages,
                attempts=reservation.attempts,
                timeout_seconds=self.models.timeout_seconds,
            )
        except CallFailed as exc:
            await self._release(db, run, reservation, exc.calls, exc.tokens)
            if exc.is_refused:
                return None
            message = "The chat model does not answer. The enrichment continues when it does."
            until = _get_next_attempt(exc.retry_after)
            raise await self._postpone(db, run.target.document_id, "chat_model", message, until) from exc
        except asyncio.CancelledError:
            await asyncio.shield(self._release(db, run, reservation, 0, 0))
            raise

    async def _release(
        self, db: TenantDatabase, run: _Run, reservation: TokenReservation, calls: int, tokens: int
    ) -> None:
        async with db.transaction() as session:
            paid = PaidCall(calls, tokens, reservation.tokens, reservation.day)
            await EnrichmentRepository(session, db.tenant_id).record_call(run.target, paid)

    async def _record(
        self,
        db: TenantDatabase,
        run: _Run,
        content_hash: bytes,
        stored: StoredReply,
        result: CallResult,
        reservation: TokenReservation,
    ) -> None:
        """Store a reply and its costs in one transaction."""
        document_id = run.target.document_id
        paid = PaidCall(result.calls, result.tokens, reservation.tokens, reservation.day)
        async with db.transaction() as session:
            repository = EnrichmentRepository(session, db.tenant_id)
            await repository.add_reply(document_id, content_hash, stored)
            await repository.record_progress(run.target, len(run.sections) + 1)
            # Last, because all documents of the knowledge base update the row of the day.
            await repository.record_call(run.target, paid)

    async def _store(self, db: TenantDatabase, run: _Run, state: EnrichmentState) -> None:
        """Store summaries, keywords, entities and relations of the enriched sections, and the state.

        Raises:
            DocumentOutdated: The document has another version or another search index now.
        """
        target = run.target
        if state is not EnrichmentState.FAILED and (run.settings.context_lines or target.has_context_lines):
            await self._apply_lines(db, run)
        sections = [run.sections[position] for position in sorted(run.sections)]
        async with db.transaction() as session:
            repository = EnrichmentRepository(session, db.tenant_id)
            scope_key = await repository.lock_target(target)
            if scope_key is None:
                raise DocumentOutdated
            await KnowledgeBaseRepository(session, db.tenant_id).lock_indexes(target.kb_id)
            await repository.replace_sections(target, sections, run.model.name)
            if target.has_graph:
                graph = EnrichedGraphRepository(session, db.tenant_id)
                chunks = await graph.load_chunks(target)
                changes = await asyncio.to_thread(compute_graph_changes, target.kb_id, chunks, sections)
                await graph.store(target, scope_key, changes)
            if state is EnrichmentState.READY:
                await repository.remove_other_replies(
                    target.document_id, [section.content_hash for section in sections]
                )
            await repository.set_state(target.document_id, state, run.progress)

    async def _apply_lines(self, db: TenantDatabase, run: _Run) -> None:
        """Embed and index the chunks with their context lines, before the state says that the document is enriched.

        Raises:
            DocumentOutdated: The document has another version or another search index now.
            EnrichmentWaiting: The embedding model does not answer, or its tokens of the day are used up.
        """
        target = run.target
        lines = [line for section in run.sections.values() for line in locate_lines(section.call, section.reply.lines)]
        try:
            is_current = await self.apply_lines(
                db, target.kb_id, target.document_id, version=target.version, index_id=target.index_id, lines=lines
            )
        except DailyTokenLimitReached as exc:
            raise await self._postpone(db, target.document_id, "rate_limit", exc.message, exc.until) from exc
        except EmbeddingUnavailable as exc:
            message = "The embedding model does not answer. The context lines are indexed when it does."
            until = _get_next_attempt(exc.retry_after)
            raise await self._postpone(db, target.document_id, "embedding_endpoint", message, until) from exc
        if not is_current:
            raise DocumentOutdated

    async def _postpone(
        self, db: TenantDatabase, document_id: UUID, reason: EnrichmentWaitReason, message: str, until: datetime
    ) -> EnrichmentWaiting:
        """Mark a document as waiting, and return the error that postpones its job."""
        async with db.transaction() as session:
            await EnrichmentRepository(session, db.tenant_id).set_waiting(document_id, reason, message)
        return EnrichmentWaiting(until)


def _get_next_attempt(retry_after: float) -> datetime:
    """Return the time of the next attempt after a model did not answer."""
    seconds = max(retry_after, RETRY_DELAY_SECONDS) * random.uniform(1.0, 1.5)  # noqa: S311  no secret
    return datetime.now(UTC) + timedelta(seconds=seconds)


def _get_next_day() -> datetime:
    """Return a time shortly after the next midnight (UTC)."""
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    delay = timedelta(seconds=random.uniform(5.0, 120.0))  # noqa: S311  no secret
    return datetime.combine(tomorrow, time.min, UTC) + delay
