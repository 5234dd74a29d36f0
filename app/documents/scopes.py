"""Scopes: the levels at which a document is visible. Each scope has one key that queries compare."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self
from uuid import UUID, uuid5

from app.db.models.base import SYSTEM_TENANT
from app.errors import InvalidInputError

_NAMESPACE = UUID("6f1d8a52-3c0b-5e0f-9a67-2b7c1c4f7e10")
MAX_SCOPE_ID_LENGTH = 256


class ScopeLevel(StrEnum):
    """Levels of visibility, from all tenants to one agent in one chat."""

    SHARED = "shared"
    TENANT = "tenant"
    USER = "user"
    CHAT_SHARED = "chat_shared"
    CHAT_AGENT = "chat_agent"


@dataclass(frozen=True, slots=True)
class DocumentScope:
    """Owner ids of a document or of a search; the combination of ids determines the level.

    A chat has a user or none. Chats of two users, and a chat without a user, may have the same ``chat_id``. With
    ``shared``, no id is set, and the document is visible to all tenants.
    """

    user_id: str | None = None
    chat_id: str | None = None
    agent_id: str | None = None
    shared: bool = field(default=False, kw_only=True)

    def with_tenant(self, tenant_id: UUID) -> Self:
        """Return the scope for a document of this tenant. Documents of the system tenant are shared by all tenants."""
        return replace(self, shared=tenant_id == SYSTEM_TENANT)

    def determine_level(self, *, loc: tuple[str, ...] = ("body",)) -> ScopeLevel:
        """Return the level of a document with these ids.

        Args:
            loc: The place of the ids in the request, for the error.

        Returns:
            The level.

        Raises:
            InvalidInputError: No level has this combination of ids.
        """
        ids = (self.user_id, self.chat_id, self.agent_id)
        if self.shared:
            if ids != (None, None, None):
                raise InvalidInputError("The shared level has no owner. Remove user_id, chat_id and agent_id.", loc=loc)
            return ScopeLevel.SHARED
        match ids:
            case (None, None, None):
                return ScopeLevel.TENANT
            case (str(), None, None):
                return ScopeLevel.USER
            case (_, str(), None):
                return ScopeLevel.CHAT_SHARED
            case (_, str(), str()):
                return ScopeLevel.CHAT_AGENT
        raise InvalidInputError("No scope has this combination of ids. An agent_id needs a chat_id.", loc=loc)

    def to_key(self, *, loc: tuple[str, ...] = ("body",)) -> UUID:
        """Return the key that queries compare. Raises InvalidInputError if no level has this combination of ids.

        The key of a chat without a user has one id fewer than the key of a user's chat.
        """
        ids = (self.user_id, self.chat_id, self.agent_id)
        return _build_key(self.determine_level(loc=loc), *(scope_id for scope_id in ids if scope_id is not None))

    def list_visible_keys(self) -> Sequence[UUID]:
        """Return the keys of all scopes that a search with these ids reads.

        Returns:
            The keys of the shared level and the tenant's level, then a key for each level that the ids name. With
            ``user_id`` and ``chat_id``, the chat is that user's, and a chat without a user is not read.
        """
        keys = [_SHARED_KEY] if self.shared else [_SHARED_KEY, _TENANT_KEY]
        if self.user_id is not None:
            keys.append(_build_key(ScopeLevel.USER, self.user_id))
        if self.chat_id is not None:
            chat = [scope_id for scope_id in (self.user_id, self.chat_id) if scope_id is not None]
            keys.append(_build_key(ScopeLevel.CHAT_SHARED, *chat))
            if self.agent_id is not None:
                keys.append(_build_key(ScopeLevel.CHAT_AGENT, *chat, self.agent_id))
        return keys


SHARED_SCOPE = DocumentScope(shared=True)


def _build_key(level: ScopeLevel, *ids: str) -> UUID:
    """Return the UUIDv5 of the level and its ids. Length prefixes keep different lists of ids from colliding."""
    return uuid5(_NAMESPACE, level.value + "".join(f"|{len(part)}:{part}" for part in ids))


_SHARED_KEY, _TENANT_KEY = _build_key(ScopeLevel.SHARED), _build_key(ScopeLevel.TENANT)
# The scopes that every key of a tenant reads, even a key that is restricted to a user. The database function
# ``is_open_level``
# has the same keys.
OPEN_LEVEL_KEYS = frozenset({_SHARED_KEY, _TENANT_KEY})
