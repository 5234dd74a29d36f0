"""Promotion of a document to a wider scope: from a chat to a user, to the tenant, to all tenants.

A document never moves to a narrower scope, and never to another chat or user of the same level. The document of a
user's chat stays with this user until it moves to the tenant.
"""

from app.db.models.tenant_data import DocumentRow
from app.documents.scopes import DocumentScope, ScopeLevel
from app.errors import InvalidInputError

_PROMOTION_ORDER = (
    ScopeLevel.CHAT_AGENT,
    ScopeLevel.CHAT_SHARED,
    ScopeLevel.USER,
    ScopeLevel.TENANT,
    ScopeLevel.SHARED,
)


def promote_document(document: DocumentRow, scope: DocumentScope) -> bool:
    """Set a document's scope to a wider scope.

    Args:
        document: The row to change.
        scope: The new scope.

    Returns:
        False if the document has this scope already.

    Raises:
        InvalidInputError: The new scope is not wider than the present scope.
    """
    if scope.to_key(loc=("body", "scope")) == document.scope_key:
        return False
    current_level, new_level = ScopeLevel(document.scope_level), scope.determine_level()
    if current_level not in _PROMOTION_ORDER[: _PROMOTION_ORDER.index(new_level)]:
        raise InvalidInputError(
            f"A document with scope level {current_level} cannot move to {new_level}. Choose a wider scope.",
            loc=("body", "scope"),
        )
    _require_same_owner(document, new_level, scope)
    document.scope_level, document.scope_key = new_level.value, scope.to_key()
    document.user_id, document.chat_id, document.agent_id = scope.user_id, scope.chat_id, scope.agent_id
    return True


def _require_same_owner(document: DocumentRow, level: ScopeLevel, scope: DocumentScope) -> None:
    """Check that the new scope has the chat and the user of the document. Raises InvalidInputError."""
    if level is ScopeLevel.CHAT_SHARED and (scope.user_id, scope.chat_id) != (document.user_id, document.chat_id):
        raise InvalidInputError(
            "A document cannot move to another chat. Use the chat_id of the document, and its user_id if it has one.",
            loc=("body", "scope", "chat_id"),
        )
    if level is ScopeLevel.USER and document.user_id not in (None, scope.user_id):
        raise InvalidInputError(
            "A document of a user's chat cannot move to another user. Use the user_id of the document.",
            loc=("body", "scope", "user_id"),
        )
