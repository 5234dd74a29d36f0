"""Python client of Carrel: ``Client`` and, for asyncio, ``AsyncClient``. ``Knowledge`` is for agents."""

from carrel_client.async_client import AsyncClient
from carrel_client.async_knowledge import AsyncKnowledge
from carrel_client.errors import (
    ApiError,
    CarrelError,
    Conflict,
    ConnectionFailed,
    Forbidden,
    IngestionFailed,
    Invalid,
    NotFound,
    PreconditionFailed,
    RateLimited,
    ServiceUnavailable,
    TooLarge,
    Unauthorized,
    UnexpectedReply,
    UnsupportedMediaType,
    WaitTimeout,
)
from carrel_client.knowledge import Knowledge
from carrel_client.knowledge_types import HintEvent, PreparedTurn, ToolReply
from carrel_client.sync_client import Client

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncKnowledge",
    "CarrelError",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Forbidden",
    "HintEvent",
    "IngestionFailed",
    "Invalid",
    "Knowledge",
    "NotFound",
    "PreconditionFailed",
    "PreparedTurn",
    "RateLimited",
    "ServiceUnavailable",
    "TooLarge",
    "ToolReply",
    "Unauthorized",
    "UnexpectedReply",
    "UnsupportedMediaType",
    "WaitTimeout",
]
