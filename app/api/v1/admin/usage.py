"""What a tenant has used, by day or by key."""

from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin
from app.errors import InvalidInputError
from app.ids import encode_id
from app.quotas.types import NO_KEY
from app.times import DAY_RANGE, ProvidedDay

router = APIRouter(prefix="/usage", tags=["usage"], route_class=AuthenticatedRoute)
DEFAULT_DAYS = 30
MAX_DAYS = 366


class UsageCountsOut(BaseModel):
    """What was used.

    ``documents``, ``bytes`` and ``chunks`` are what came in, whether it is still there or not; ``embedding_tokens`` are
    those of documents and of queries.
    """

    uploads: int
    documents: int
    bytes: int
    chunks: int
    searches: int
    embedding_tokens: int


class DailyUsageOut(UsageCountsOut):
    """The same on a day (UTC)."""

    day: date


class KeyUsageOut(UsageCountsOut):
    """The same by a key; ``key`` is null for what no key of the tenant has used, ``name`` for one that is gone."""

    key: str | None
    name: str | None


class StorageUsageOut(BaseModel):
    """What is stored now."""

    documents: int
    stored_bytes: int
    chunks: int


class UsageOut(BaseModel):
    """What was used from one day (UTC) to another, both included; days and keys that used nothing are left out."""

    begin: date = Field(alias="from")
    end: date = Field(alias="to")
    by: Literal["day", "key"]
    items: list[DailyUsageOut] | list[KeyUsageOut]
    storage: StorageUsageOut


@router.get("", response_model=UsageOut)
async def get_usage(
    tenant: CurrentAdmin,
    begin: Annotated[
        ProvidedDay | None, Query(alias="from", description=f"The first day, {DAY_RANGE}; 30 days by default")
    ] = None,
    end: Annotated[
        ProvidedDay | None, Query(alias="to", description=f"The last day, {DAY_RANGE}; by default today")
    ] = None,
    by: Literal["day", "key"] = "day",
) -> dict[str, Any]:
    """What the tenant has used by day, or each of its keys; and what it has stored now."""
    end = end or datetime.now(UTC).date()
    begin = begin or date.fromordinal(max(1, end.toordinal() - DEFAULT_DAYS + 1))
    if not timedelta(0) <= end - begin < timedelta(days=MAX_DAYS):
        raise InvalidInputError(f"It must be a time of 1 to {MAX_DAYS} days.", loc=("query", "from"))
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
