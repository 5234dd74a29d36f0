"""Scopes of documents, and promotion to a wider scope."""

from typing import Annotated, Literal, Self

from fastapi import Depends, Query
from pydantic import BaseModel, Field, model_validator

from app.api.http import example_values
from app.api.v1.schemas import ScopeId, StrictRequestModel
from app.documents.scopes import DocumentScope


class ScopeOut(BaseModel):
    """Scope of a document: the users, chats and agents that can find the document."""

    level: str = Field(
        description="Level: `shared` (all tenants), `tenant`, `user`, `chat_shared` (a chat) or `chat_agent` (an "
        "agent in a chat).",
        examples=["tenant"],
    )
    user_id: str | None = Field(
        description="User of the level `user`, or the user to whom the chat belongs. Null if there is none.",
        examples=[None],
    )
    chat_id: str | None = Field(
        description="Chat of the levels `chat_shared` and `chat_agent`; else null.", examples=[None]
    )
    agent_id: str | None = Field(description="Agent of the level `chat_agent`; else null.", examples=[None])


class ScopePromotionRequest(StrictRequestModel):
    """Wider scope for a document: from an agent to its chat, from a chat to a user, from any level to the tenant."""

    level: Literal["tenant", "user", "chat_shared"] = Field(description="Level to promote to.", examples=["user"])
    user_id: ScopeId | None = Field(
        None,
        description="User of the level `user`, 1 to 256 characters. With the level `chat_shared`, the user to whom the "
        "chat of the document belongs. Not with the level `tenant`.",
        examples=[example_values.USER_ID],
    )
    chat_id: ScopeId | None = Field(
        None,
        description="Chat of the level `chat_shared`, 1 to 256 characters; not with other levels.",
        examples=[None],
    )

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        has_user, has_chat = self.user_id is not None, self.chat_id is not None
        match self.level:
            case "tenant" if has_user or has_chat:
                raise ValueError("the level tenant takes no id")
            case "user" if not has_user or has_chat:
                raise ValueError("the level user takes user_id")
            case "chat_shared" if not has_chat:
                raise ValueError("the level chat_shared takes chat_id, and user_id if the chat belongs to a user")
        return self

    def to_scope(self) -> DocumentScope:
        """Convert the body to a scope."""
        return DocumentScope(self.user_id, self.chat_id)


def parse_chunk_scope(
    user_id: Annotated[
        ScopeId | None,
        Query(
            description="Only chunks of this user. With `chat_id`, only those of this user's chat.",
            examples=[example_values.USER_ID],
        ),
    ] = None,
    chat_id: Annotated[
        ScopeId | None,
        Query(
            description="Only chunks of this chat. Without `user_id`, the chat belongs to no user.",
            examples=[example_values.CHAT_ID],
        ),
    ] = None,
    agent_id: Annotated[
        ScopeId | None,
        Query(
            description="Only chunks of this agent in the chat. Needs `chat_id`.", examples=[example_values.AGENT_ID]
        ),
    ] = None,
) -> DocumentScope:
    """Return the scope of the query parameters of a list of chunks, or of the entities of chunks."""
    return DocumentScope(user_id, chat_id, agent_id)


ChunkScope = Annotated[DocumentScope, Depends(parse_chunk_scope)]
SharedLevel = Annotated[
    Literal["shared"] | None,
    Query(
        description="`shared`: chunks that the operator shares with all tenants under this name.", examples=["shared"]
    ),
]
