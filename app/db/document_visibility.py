"""SQL conditions for the documents that callers may read."""

# True for a row of ``document`` that the user ``:reader`` of a restricted key may read. The rows of ``chat`` are owners
# of chats without a user: another user's chat may have the same id.
READABLE_CONDITION = """
(document.scope_level in ('shared', 'tenant') or document.user_id = :reader
 or document.user_id is null
    and exists (select from chat h where h.tenant_id = document.tenant_id and h.chat_id = document.chat_id
                   and h.user_id = :reader))"""

# Enforced metadata consists of plain values, so a document matches if its metadata contains them. During a metadata
# backfill, a document has either the former or the pending enforced metadata.
ENFORCED_CONDITION = """
exists (select from knowledge_base k where k.tenant_id = document.tenant_id and k.id = document.kb_id
           and (document.filterable @> k.metadata_filter or document.filterable @> k.pending_metadata_filter))"""
# The sweeper deletes expired documents later.
NOT_EXPIRED_CONDITION = "(document.expires_at is null or document.expires_at > now())"
