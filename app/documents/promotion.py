"""Promotion: a document moves up, from a chat to a user to the whole tenant, never down and never aside."""

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
    """Make ``scope`` the document's; False where it is already.

    Raises InvalidInputError for a move that is none upwards.
    """
    if scope.to_key(loc=("body", "scope")) == document.scope_key:
        return False
    current_level, new_level = ScopeLevel(document.scope_level), scope.determine_level()
    if current_level not in _PROMOTION_ORDER[: _PROMOTION_ORDER.index(new_level)]:
        raise InvalidInputError(
            f"A document of the level {current_level} does not move to {new_level}.", loc=("body", "scope")
        )
    if new_level is ScopeLevel.CHAT_SHARED and scope.chat_id != document.chat_id:
        raise InvalidInputError("A document does not move from one chat to another.", loc=("body", "scope", "chat_id"))
    document.scope_level, document.scope_key = new_level.value, scope.to_key()
    document.user_id, document.chat_id, document.agent_id = scope.user_id, scope.chat_id, scope.agent_id
    return True
