"""Who is calling and what they may do: the principal that authentication yields and every room is given."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class Role(StrEnum):
    """What a key may do, weakest first."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"
    OPERATOR = "operator"

    def covers(self, needed: "Role") -> bool:
        """True when this role may do what ``needed`` may; only the operator is the operator."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling: the tenant comes from the key alone. ``key_id`` is None for the operator.

    A key narrowed to a ``user_id`` reaches, of all users' and chats' levels, only that user's and their chats'.
    """

    tenant_id: UUID
    tenant_name: str
    role: Role
    key_id: UUID | None = None
    key_name: str = "operator"
    knowledge_base_ids: frozenset[UUID] | None = None
    user_id: str | None = None

    def may_see(self, knowledge_base_id: UUID) -> bool:
        """False for a knowledge base outside those that the key is narrowed to."""
        return self.knowledge_base_ids is None or knowledge_base_id in self.knowledge_base_ids
