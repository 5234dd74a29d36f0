"""Scopes on the wire: whom a document belongs to, and to whom it can be promoted."""

from typing import Literal, Self

from pydantic import BaseModel, model_validator

from app.api.v1.schemas import ScopeId, StrictRequestModel
from app.documents.scopes import DocumentScope


class ScopeOut(BaseModel):
    """Whom the document belongs to."""

    level: str
    user_id: str | None
    chat_id: str | None
    agent_id: str | None


class ScopePromotionRequest(StrictRequestModel):
    """The scope to move up to: one agent's document to its whole chat, a chat's to a user, anyone's to the tenant."""

    level: Literal["tenant", "user", "chat_shared"]
    user_id: ScopeId | None = None
    chat_id: ScopeId | None = None

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        needed = {"tenant": [], "user": ["user_id"], "chat_shared": ["chat_id"]}[self.level]
        if needed != [name for name in ("user_id", "chat_id") if getattr(self, name) is not None]:
            raise ValueError(f"the level {self.level} takes {needed[0] if needed else 'no id'}")
        return self

    def to_scope(self) -> DocumentScope:
        """The room's form of it."""
        return DocumentScope(self.user_id, self.chat_id)
