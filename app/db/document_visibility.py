"""SQL condition for the documents that a key restricted to a user may read."""

# True for a row of ``document`` that the user ``:reader`` of a restricted key may read.
READABLE_CONDITION = """
(document.scope_level in ('shared', 'tenant') or document.user_id = :reader
 or exists (select from chat h where h.tenant_id = document.tenant_id and h.chat_id = document.chat_id
               and h.user_id = :reader))"""
