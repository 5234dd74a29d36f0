"""What a tenant has used, by day or by key."""

from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from app.api.dependencies import CurrentAdmin, GuardedRoute
from app.errors import InvalidInput
from app.ids import encode_id
from app.quotas.types import NO_KEY
from app.times import DAY_RANGE, GivenDay

router = APIRouter(prefix="/usage", tags=["usage"], route_class=GuardedRoute)
DAYS = 30
MOST_DAYS = 366


class UsedOut(BaseModel):
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


class UsedOnDay(UsedOut):
    """The same on a day (UTC)."""

    day: date


class UsedByKey(UsedOut):
    """The same by a key; ``key`` is null for what no key of the tenant has used, ``name`` for one that is gone."""

    key: str | None
    name: str | None


class StoredOut(BaseModel):
    """What is stored now."""

    documents: int
    stored_bytes: int
    chunks: int


class UsageOut(BaseModel):
    """What was used from one day (UTC) to another, both included; days and keys that used nothing are left out."""

    begin: date = Field(alias="from")
    end: date = Field(alias="to")
    by: Literal["day", "key"]
    items: list[UsedOnDay] | list[UsedByKey]
    stored: StoredOut


@router.get("", response_model=UsageOut)
async def get_usage(
    tenant: CurrentAdmin,
    begin: Annotated[
        GivenDay | None, Query(alias="from", description=f"The first day, {DAY_RANGE}; 30 days by default")
    ] = None,
    end: Annotated[
        GivenDay | None, Query(alias="to", description=f"The last day, {DAY_RANGE}; by default today")
    ] = None,
    by: Literal["day", "key"] = "day",
) -> dict[str, Any]:
    """What the tenant has used by day, or each of its keys; and what it has stored now."""
    end = end or datetime.now(UTC).date()
    begin = begin or date.fromordinal(max(1, end.toordinal() - DAYS + 1))
    if not timedelta(0) <= end - begin < timedelta(days=MOST_DAYS):
        raise InvalidInput(f"It must be a time of 1 to {MOST_DAYS} days.", loc=("query", "from"))
    items: list[dict[str, Any]]
    if by == "day":
        items = [{"day": day, **asdict(used)} for day, used in await tenant.quotas.by_day(begin, end)]
    else:
        found = await tenant.quotas.by_key(begin, end)
        items = [{"key": _key(key), "name": name, **asdict(used)} for key, name, used in found]
    stored = await tenant.quotas.stored()
    return {"from": begin, "to": end, "by": by, "items": items, "stored": asdict(stored)}


def _key(key_id: UUID) -> str | None:
    return None if key_id == NO_KEY else encode_id("key", key_id)
