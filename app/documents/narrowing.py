"""What a key that is narrowed to a user may read and write: that user's level, and the chats that are theirs."""

from app.access import Principal
from app.db.models.tenant_data import Document
from app.db.session import Session
from app.db.statements import statement
from app.documents.scopes import Scope, ScopeLevel
from app.errors import Forbidden


async def within(session: Session, principal: Principal, scope: Scope) -> Scope:
    """What is left of the ids that a search names: those of others open nothing."""
    if principal.user_id is None:
        return scope
    user_id = scope.user_id if scope.user_id == principal.user_id else None
    if scope.chat_id is None or not await _owns(session, principal, scope.chat_id):
        return Scope(user_id)
    return Scope(user_id, scope.chat_id, scope.agent_id)


async def claim(session: Session, principal: Principal, scope: Scope) -> None:
    """For a document that is to get this scope; a chat without documents becomes the user's. Raises Forbidden."""
    if principal.user_id is None:
        return
    level = scope.level()
    if level is ScopeLevel.USER and scope.user_id == principal.user_id:
        return
    if level in (ScopeLevel.CHAT_SHARED, ScopeLevel.CHAT_AGENT) and scope.chat_id is not None:
        place = {"t": principal.tenant_id, "chat": scope.chat_id, "user": principal.user_id}
        if await _owns(session, principal, scope.chat_id) or await session.row(_CLAIM, place) is not None:
            return
    raise NotTheirs


def require_own(principal: Principal, document: Document) -> None:
    """For a document that the key may read, before it is changed. Raises SharedDocument, Forbidden."""
    if document.tenant_id != principal.tenant_id:
        raise SharedDocument
    if principal.user_id is not None and document.scope_level in (ScopeLevel.TENANT, ScopeLevel.SHARED):
        raise NotTheirs


class SharedDocument(Forbidden):
    """The document is shared by all tenants: only the operator changes it."""

    code = "shared_document"


class NotTheirs(Forbidden):
    """The key is narrowed to a user: it changes that user's documents and chats and nothing else."""


async def _owns(session: Session, principal: Principal, chat_id: str) -> bool:
    place = {"t": principal.tenant_id, "chat": chat_id, "user": principal.user_id}
    return await session.row(_OWNS, place) is not None


_OWNS = statement("select 1 from chat where tenant_id = :t and chat_id = :chat and user_id = :user")
_CLAIM = statement("""
insert into chat (tenant_id, chat_id, user_id) select :t::uuid, :chat::text, :user::text
 where not exists (select from document where tenant_id = :t and chat_id = :chat)
on conflict do nothing returning 1""")
