"""Which documents a key that is narrowed to a user may read, as a condition in SQL."""

# For a row of ``document``: whether the user of a narrowed key may read it.
READABLE_CONDITION = """
(document.scope_level in ('shared', 'tenant') or document.user_id = :reader
 or exists (select from chat h where h.tenant_id = document.tenant_id and h.chat_id = document.chat_id
               and h.user_id = :reader))"""
