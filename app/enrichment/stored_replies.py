"""Replies of a document that were paid for: a reply is used again if only the context lines are switched on or off."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.enrichment.prompt import compute_content_hash, compute_settings_hash
from app.enrichment.types import SectionReply

LINES = "context_lines"


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply that was paid for, with its tokens and the tokens that were estimated before the call."""

    reply: SectionReply
    tokens: int
    estimated_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ReplyMatch:
    """Result of the search for a stored reply about a section.

    Attributes:
        content_hash: Key of the reply that has all wanted parts.
        stored: A reply that was paid for; None if none can be used.
        missing: Wanted parts that it does not have.
    """

    content_hash: bytes
    stored: StoredReply | None
    missing: tuple[str, ...]

    def complete(self, reply: SectionReply, *, tokens: int, estimated_tokens: int) -> StoredReply:
        """Return a new reply, together with the parts that were paid for earlier.

        Args:
            reply: Reply with the missing parts.
            tokens: Tokens that it cost.
            estimated_tokens: Tokens that were estimated for it.
        """
        if self.stored is None:
            return StoredReply(reply, tokens, estimated_tokens)
        return StoredReply(
            replace(self.stored.reply, lines=reply.lines, is_skipped=reply.is_skipped),
            self.stored.tokens + tokens,
            self.stored.estimated_tokens + estimated_tokens,
        )


def match_reply(replies: Mapping[bytes, StoredReply], model: str, parts: Sequence[str], material: str) -> ReplyMatch:
    """Find the reply to a call among those that were paid for.

    Without a reply that has the wanted parts, one with the same other parts and with or without context lines is used.

    Args:
        replies: Replies of the document, by their hash.
        model: Name of the chat model.
        parts: Wanted parts.
        material: Data of the call, without passages.
    """
    wanted = tuple(parts)
    others = tuple(part for part in wanted if part != LINES)
    content_hash = _compute_hash(model, wanted, material)
    if stored := replies.get(content_hash):
        return ReplyMatch(content_hash, stored, ())
    if LINES not in wanted:
        with_lines = _compute_hash(model, (*others, LINES), material)
        if stored := replies.get(with_lines):
            has_others = bool(stored.reply.summary or stored.reply.keywords or stored.reply.entities)
            reply = replace(stored.reply, lines=(), is_skipped=stored.reply.is_skipped and not has_others)
            return ReplyMatch(with_lines, replace(stored, reply=reply), ())
    elif (stored := replies.get(_compute_hash(model, others, material))) and not stored.reply.is_skipped:
        return ReplyMatch(content_hash, stored, (LINES,))
    return ReplyMatch(content_hash, None, wanted)


def _compute_hash(model: str, parts: Sequence[str], material: str) -> bytes:
    return compute_content_hash(compute_settings_hash(model, parts), material)
