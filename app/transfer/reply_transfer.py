"""Replies of the enrichment in archives: their records, and their import."""

import json
from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, Field, StringConstraints

from app.db.session import Session
from app.db.statements import parse_statement
from app.enrichment.prompt import MAX_PASSAGES
from app.enrichment.reply import (
    MAX_ENTITIES,
    MAX_EVIDENCE_CHARACTERS,
    MAX_KEYWORD_CHARACTERS,
    MAX_KEYWORDS,
    MAX_RELATIONS,
    MAX_SUMMARY_CHARACTERS,
    MAX_TYPE_CHARACTERS,
    parse_stored_reply,
    to_stored_reply,
)
from app.enrichment.types import SectionReply
from app.transfer.archive_format import (
    ArchiveRecord,
    ContextLineText,
    Digest,
    EntityName,
    EntityType,
    Number,
    check_storable,
)

KeywordText = Annotated[str, StringConstraints(max_length=MAX_KEYWORD_CHARACTERS), AfterValidator(check_storable)]


class ReplyEntityRecord(ArchiveRecord):
    """An entity in a reply."""

    name: EntityName
    type: Annotated[str, StringConstraints(max_length=MAX_TYPE_CHARACTERS), AfterValidator(check_storable)]
    score: Annotated[float, Field(ge=0, le=1)]


class ReplyRelationRecord(ArchiveRecord):
    """A relation in a reply, with its evidence."""

    subject: EntityName
    predicate: EntityType
    object: EntityName
    evidence: Annotated[str, StringConstraints(max_length=MAX_EVIDENCE_CHARACTERS), AfterValidator(check_storable)]


class ReplyLineRecord(ArchiveRecord):
    """A context line in a reply, about a range of the text."""

    start: Number
    end: Number
    text: ContextLineText


class ReplyRecord(ArchiveRecord):
    """A reply of the enrichment, as it is stored: found by its hash, so that an import pays no call again."""

    hash: Digest
    summary: Annotated[str, StringConstraints(max_length=MAX_SUMMARY_CHARACTERS), AfterValidator(check_storable)] = ""
    keywords: Annotated[tuple[KeywordText, ...], Field(max_length=MAX_KEYWORDS)] = ()
    entities: Annotated[tuple[ReplyEntityRecord, ...], Field(max_length=MAX_ENTITIES)] = ()
    relations: Annotated[tuple[ReplyRelationRecord, ...], Field(max_length=MAX_RELATIONS)] = ()
    dropped: Number = 0
    is_skipped: bool = False
    lines: Annotated[tuple[ReplyLineRecord, ...], Field(max_length=MAX_PASSAGES)] = ()
    tokens: Number
    estimated_tokens: Number

    def to_stored_reply(self) -> SectionReply:
        """Return the reply as the enrichment stores it."""
        fields = self.model_dump(exclude={"hash", "tokens", "estimated_tokens"})
        return parse_stored_reply(fields)


async def import_replies(session: Session, tenant_id: UUID, document_id: UUID, replies: Sequence[ReplyRecord]) -> None:
    """Store the replies of an archive with an imported document.

    Args:
        session: The transaction that adds the document.
        tenant_id: The tenant.
        document_id: The document.
        replies: Replies of the archive.
    """
    rows = [
        {
            "hash": reply.hash,
            "reply": to_stored_reply(reply.to_stored_reply()),
            "tokens": reply.tokens,
            "estimated_tokens": reply.estimated_tokens,
        }
        for reply in replies
    ]
    if rows:
        values = {"t": tenant_id, "d": document_id, "rows": json.dumps(rows)}
        await session.fetch_rows(_ADD_REPLIES, values)


_ADD_REPLIES = parse_statement("""
insert into enrichment_result (tenant_id, document_id, content_hash, reply, tokens, estimated_tokens)
select :t::uuid, :d::uuid, decode(r.hash, 'hex'), r.reply, r.tokens, r.estimated_tokens
  from jsonb_to_recordset(:rows::jsonb) r(hash text, reply jsonb, tokens int, estimated_tokens int)
on conflict do nothing""")
