"""Python client of Carrel: ``Client`` and, for asyncio, ``AsyncClient``."""

from carrel_client.async_client import AsyncClient
from carrel_client.errors import (
    ApiError,
    CarrelError,
    Conflict,
    ConnectionFailed,
    Forbidden,
    IngestionFailed,
    Invalid,
    NotFound,
    RateLimited,
    ServiceUnavailable,
    TooLarge,
    Unauthorized,
    UnexpectedReply,
    UnsupportedMediaType,
    WaitTimeout,
)
from carrel_client.sync_client import Client

__all__ = [
    "ApiError",
    "AsyncClient",
    "CarrelError",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Forbidden",
    "IngestionFailed",
    "Invalid",
    "NotFound",
    "RateLimited",
    "ServiceUnavailable",
    "TooLarge",
    "Unauthorized",
    "UnexpectedReply",
    "UnsupportedMediaType",
    "WaitTimeout",
]
