"""Promotion: a document moves up, from a chat to a user to the whole tenant, never down and never aside."""

from app.db.models.tenant_data import Document
from app.documents.scopes import Scope, ScopeLevel
from app.errors import InvalidInput

_LADDER = (ScopeLevel.CHAT_AGENT, ScopeLevel.CHAT_SHARED, ScopeLevel.USER, ScopeLevel.TENANT, ScopeLevel.SHARED)


def promote(document: Document, scope: Scope) -> bool:
    """Make ``scope`` the document's; False where it is already. Raises InvalidInput for a move that is none upwards."""
    if scope.key(loc=("body", "scope")) == document.scope_key:
        return False
    here, there = ScopeLevel(document.scope_level), scope.level()
    if here not in _LADDER[: _LADDER.index(there)]:
        raise InvalidInput(f"A document of the level {here} does not move to {there}.", loc=("body", "scope"))
    if there is ScopeLevel.CHAT_SHARED and scope.chat_id != document.chat_id:
        raise InvalidInput("A document does not move from one chat to another.", loc=("body", "scope", "chat_id"))
    document.scope_level, document.scope_key = there.value, scope.key()
    document.user_id, document.chat_id, document.agent_id = scope.user_id, scope.chat_id, scope.agent_id
    return True
