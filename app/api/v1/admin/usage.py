"""Usage of a tenant, by day or by API key."""

from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin
from app.api.http import example_values
from app.errors import InvalidInputError
from app.ids import encode_id
from app.quotas.types import NO_KEY
from app.times import DAY_RANGE, ProvidedDay

router = APIRouter(prefix="/usage", tags=["usage"], route_class=AuthenticatedRoute)
DEFAULT_DAYS = 30
MAX_DAYS = 366


class UsageCountsOut(BaseModel):
    """Usage in a period."""

    uploads: int = Field(description="Number of uploads.", examples=[14])
    documents: int = Field(description="Number of new documents, whether they exist now or not.", examples=[12])
    bytes: int = Field(description="Size of the uploaded originals in bytes.", examples=[578532])
    chunks: int = Field(description="Number of new chunks, whether they exist now or not.", examples=[480])
    searches: int = Field(description="Number of searches.", examples=[230])
    embedding_tokens: int = Field(description="Number of embedded tokens of documents and queries.", examples=[98200])
    enrichment_calls: int = Field(
        description="Number of calls of the chat model that enriches documents. They belong to no key.", examples=[35]
    )
    enrichment_tokens: int = Field(
        description="Number of tokens of these calls, with those reserved for calls that were interrupted.",
        examples=[51200],
    )


class DailyUsageOut(UsageCountsOut):
    """Usage of a day."""

    day: date = Field(description="Day in UTC.", examples=["2026-03-02"])


class KeyUsageOut(UsageCountsOut):
    """Usage of an API key."""

    key: str | None = Field(
        description="Id of the API key; null for usage without a key of the tenant.",
        examples=[example_values.API_KEY_ID],
    )
    name: str | None = Field(
        description="Name of the API key; null if the key does not exist any more.", examples=["backend"]
    )


class StorageUsageOut(BaseModel):
    """Storage of a tenant."""

    documents: int = Field(description="Number of documents.", examples=[12])
    stored_bytes: int = Field(description="Size of the stored originals in bytes.", examples=[578532])
    chunks: int = Field(description="Number of chunks.", examples=[480])


class UsageOut(BaseModel):
    """Usage from one day to another, both included. Days and keys without usage are left out."""

    begin: date = Field(alias="from", description="First day in UTC.", examples=["2026-02-01"])
    end: date = Field(alias="to", description="Last day in UTC.", examples=["2026-03-02"])
    by: Literal["day", "key"] = Field(description="Grouping of `items`.", examples=["day"])
    items: list[DailyUsageOut] | list[KeyUsageOut] = Field(
        description="Usage of each day, or of each API key.",
        examples=[
            [
                {
                    "day": "2026-03-02",
                    "uploads": 14,
                    "documents": 12,
                    "bytes": 578532,
                    "chunks": 480,
                    "searches": 230,
                    "embedding_tokens": 98200,
                    "enrichment_calls": 35,
                    "enrichment_tokens": 51200,
                }
            ]
        ],
    )
    storage: StorageUsageOut = Field(description="Current storage of the tenant.")


@router.get("", summary="Get the usage", response_model=UsageOut)
async def get_usage(
    tenant: CurrentAdmin,
    begin: Annotated[
        ProvidedDay | None,
        Query(
            alias="from", description=f"First day, {DAY_RANGE}. Default: 29 days before `to`.", examples=["2026-02-01"]
        ),
    ] = None,
    end: Annotated[
        ProvidedDay | None,
        Query(alias="to", description=f"Last day, {DAY_RANGE}. Default: today.", examples=["2026-03-02"]),
    ] = None,
    by: Annotated[
        Literal["day", "key"], Query(description="Group the usage by day or by API key.", examples=["day"])
    ] = "day",
) -> dict[str, Any]:
    """Return the usage of the tenant by day or by API key, and its current storage. The period has at most 366 days."""
    end = end or datetime.now(UTC).date()
    begin = begin or date.fromordinal(max(1, end.toordinal() - DEFAULT_DAYS + 1))
    if not timedelta(0) <= end - begin < timedelta(days=MAX_DAYS):
        raise InvalidInputError(
            f"`from` must not be after `to`, and the time has at most {MAX_DAYS} days.", loc=("query", "from")
        )
    items: list[dict[str, Any]]
    if by == "day":
        items = [{"day": day, **asdict(counts)} for day, counts in await tenant.quotas.list_usage_by_day(begin, end)]
    else:
        rows = await tenant.quotas.list_usage_by_key(begin, end)
        items = [{"key": _encode_key_id(key), "name": name, **asdict(counts)} for key, name, counts in rows]
    stored = await tenant.quotas.get_storage()
    return {"from": begin, "to": end, "by": by, "items": items, "storage": asdict(stored)}


def _encode_key_id(key_id: UUID) -> str | None:
    return None if key_id == NO_KEY else encode_id("key", key_id)
