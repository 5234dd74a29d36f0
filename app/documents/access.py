"""What a key that is narrowed to a user may read and write: that user's level, and the chats that are theirs."""

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.scopes import DocumentScope, ScopeLevel
from app.errors import ForbiddenError
from app.principal import Principal


async def restrict_scope(session: Session, principal: Principal, scope: DocumentScope) -> DocumentScope:
    """What is left of the ids that a search names: those of others open nothing."""
    if principal.user_id is None:
        return scope
    user_id = scope.user_id if scope.user_id == principal.user_id else None
    if scope.chat_id is None or not await _is_chat_owner(session, principal, scope.chat_id):
        return DocumentScope(user_id)
    return DocumentScope(user_id, scope.chat_id, scope.agent_id)


async def claim_scope(session: Session, principal: Principal, scope: DocumentScope) -> None:
    """For a document that is to get this scope; a chat without documents becomes the user's. Raises ForbiddenError."""
    if principal.user_id is None:
        return
    level = scope.determine_level()
    if level is ScopeLevel.USER and scope.user_id == principal.user_id:
        return
    if level in (ScopeLevel.CHAT_SHARED, ScopeLevel.CHAT_AGENT) and scope.chat_id is not None:
        params = {"t": principal.tenant_id, "chat": scope.chat_id, "user": principal.user_id}
        if (
            await _is_chat_owner(session, principal, scope.chat_id)
            or await session.fetch_row(_CLAIM_CHAT, params) is not None
        ):
            return
    raise NotOwnedByUser


def require_writable(principal: Principal, document: DocumentRow) -> None:
    """For a document that the key may read, before it is changed. Raises SharedDocument, ForbiddenError."""
    if document.tenant_id != principal.tenant_id:
        raise SharedDocument
    if principal.user_id is not None and document.scope_level in (ScopeLevel.TENANT, ScopeLevel.SHARED):
        raise NotOwnedByUser


class SharedDocument(ForbiddenError):
    """The document is shared by all tenants: only the operator changes it."""

    code = "shared_document"


class NotOwnedByUser(ForbiddenError):
    """The key is narrowed to a user: it changes that user's documents and chats and nothing else."""


async def _is_chat_owner(session: Session, principal: Principal, chat_id: str) -> bool:
    params = {"t": principal.tenant_id, "chat": chat_id, "user": principal.user_id}
    return await session.fetch_row(_FIND_OWN_CHAT, params) is not None


_FIND_OWN_CHAT = parse_statement("select 1 from chat where tenant_id = :t and chat_id = :chat and user_id = :user")
_CLAIM_CHAT = parse_statement("""
insert into chat (tenant_id, chat_id, user_id) select :t::uuid, :chat::text, :user::text
 where not exists (select from document where tenant_id = :t and chat_id = :chat)
on conflict do nothing returning 1""")
