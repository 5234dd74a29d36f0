"""Access checks of API keys that are restricted to a user: the user and chat scopes that such a key may use."""

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.scopes import DocumentScope, ScopeLevel
from app.errors import ForbiddenError
from app.principal import Principal


async def restrict_scope(session: Session, principal: Principal, scope: DocumentScope) -> DocumentScope:
    """Remove the ids that the caller's key may not read from the scope of a search.

    A key restricted to a user keeps the id of that user, and the ids of that user's chats. It also keeps the ids of a
    chat without a user that the user owns. If the search names another user, no id is left.

    Args:
        session: An open transaction of the tenant.
        principal: The caller. If its key is not restricted to a user, the scope is returned unchanged.
        scope: The ids that the search names.

    Returns:
        The scope without the ids of other users and of chats that are not the user's.
    """
    if principal.user_id is None:
        return scope
    if scope.user_id is not None:
        return scope if scope.user_id == principal.user_id else DocumentScope()
    if scope.chat_id is None or not await _is_chat_owner(session, principal, scope.chat_id):
        return DocumentScope()
    return scope


async def claim_scope(session: Session, principal: Principal, scope: DocumentScope) -> None:
    """Check that the caller's key may give this scope to a document.

    A key restricted to a user may use that user's scope, that user's chats, and the chats without a user that the user
    owns. A chat without a user, an owner and documents gets this user as its owner.

    Args:
        session: An open transaction of the tenant.
        principal: The caller. A key that is not restricted to a user may use every scope.
        scope: The scope that a document is about to get.

    Raises:
        ForbiddenError: The scope belongs to the tenant, to another user, or to a chat that the user does not own.
    """
    if principal.user_id is None:
        return
    scope.determine_level()
    if scope.user_id == principal.user_id:
        return
    if scope.user_id is None and scope.chat_id is not None:
        params = {"t": principal.tenant_id, "chat": scope.chat_id, "user": principal.user_id}
        if (
            await _is_chat_owner(session, principal, scope.chat_id)
            or await session.fetch_row(_CLAIM_CHAT, params) is not None
        ):
            return
    raise NotOwnedByUser


def require_writable(principal: Principal, document: DocumentRow) -> None:
    """Check that the key may change a readable document. Raises SharedDocument, NotOwnedByUser."""
    if document.tenant_id != principal.tenant_id:
        raise SharedDocument
    if principal.user_id is not None and document.scope_level in (ScopeLevel.TENANT, ScopeLevel.SHARED):
        raise NotOwnedByUser


class SharedDocument(ForbiddenError):
    """All tenants share this document, so only the operator can change it. Upload a copy to change it."""

    code = "shared_document"


class NotOwnedByUser(ForbiddenError):
    """This API key is restricted to a user and changes only that user's documents and chats. Use another API key."""


async def _is_chat_owner(session: Session, principal: Principal, chat_id: str) -> bool:
    """Return whether the caller's user owns the chat without a user."""
    params = {"t": principal.tenant_id, "chat": chat_id, "user": principal.user_id}
    return await session.fetch_row(_FIND_OWN_CHAT, params) is not None


_FIND_OWN_CHAT = parse_statement("select 1 from chat where tenant_id = :t and chat_id = :chat and user_id = :user")
_CLAIM_CHAT = parse_statement("""
insert into chat (tenant_id, chat_id, user_id) select :t::uuid, :chat::text, :user::text
 where not exists (select from document where tenant_id = :t and user_id is null and chat_id = :chat)
on conflict do nothing returning 1""")
