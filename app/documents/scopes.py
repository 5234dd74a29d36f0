"""Scopes: the levels a document can belong to, as one comparable key per level."""

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
    """From everybody to one agent in one chat."""

    SHARED = "shared"
    TENANT = "tenant"
    USER = "user"
    CHAT_SHARED = "chat_shared"
    CHAT_AGENT = "chat_agent"


@dataclass(frozen=True, slots=True)
class DocumentScope:
    """The ids that a caller names; the level follows from which are given, and ``shared`` is the level without any."""

    user_id: str | None = None
    chat_id: str | None = None
    agent_id: str | None = None
    shared: bool = field(default=False, kw_only=True)

    def with_tenant(self, tenant_id: UUID) -> Self:
        """The same as a document of this tenant has it: what is the system tenant's is everybody's."""
        return replace(self, shared=tenant_id == SYSTEM_TENANT)

    def determine_level(self, *, loc: tuple[str, ...] = ("body",)) -> ScopeLevel:
        """The level of a document with these ids. Raises InvalidInputError for a combination that names none.

        ``loc`` is where the caller has put them.
        """
        ids = (self.user_id, self.chat_id, self.agent_id)
        if self.shared:
            if ids != (None, None, None):
                raise InvalidInputError("The shared level has no user_id, chat_id or agent_id.", loc=loc)
            return ScopeLevel.SHARED
        match ids:
            case (None, None, None):
                return ScopeLevel.TENANT
            case (str(), None, None):
                return ScopeLevel.USER
            case (None, str(), None):
                return ScopeLevel.CHAT_SHARED
            case (None, str(), str()):
                return ScopeLevel.CHAT_AGENT
        raise InvalidInputError(
            "A document belongs to a user_id, to a chat_id, or to a chat_id and an agent_id.", loc=loc
        )

    def to_key(self, *, loc: tuple[str, ...] = ("body",)) -> UUID:
        """What the search lanes compare. Raises InvalidInputError as ``determine_level`` does."""
        ids = (self.user_id, self.chat_id, self.agent_id)
        return _build_key(self.determine_level(loc=loc), *(scope_id for scope_id in ids if scope_id is not None))

    def list_visible_keys(self) -> Sequence[UUID]:
        """The keys that a search naming these ids sees: the shared and the tenant's level, and each that it names."""
        keys = [_SHARED_KEY] if self.shared else [_SHARED_KEY, _TENANT_KEY]
        if self.user_id is not None:
            keys.append(_build_key(ScopeLevel.USER, self.user_id))
        if self.chat_id is not None:
            keys.append(_build_key(ScopeLevel.CHAT_SHARED, self.chat_id))
            if self.agent_id is not None:
                keys.append(_build_key(ScopeLevel.CHAT_AGENT, self.chat_id, self.agent_id))
        return keys


SHARED_SCOPE = DocumentScope(shared=True)


def _build_key(level: ScopeLevel, *ids: str) -> UUID:
    """UUIDv5 of the level and the ids it is made of (lengths first, so that no two sets of ids read the same)."""
    return uuid5(_NAMESPACE, level.value + "".join(f"|{len(part)}:{part}" for part in ids))


_SHARED_KEY, _TENANT_KEY = _build_key(ScopeLevel.SHARED), _build_key(ScopeLevel.TENANT)
# The levels that a key sees even if it is narrowed to a user. The database has the same in is_open_level.
OPEN_LEVEL_KEYS = frozenset({_SHARED_KEY, _TENANT_KEY})
