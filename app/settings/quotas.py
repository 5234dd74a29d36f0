"""Settings of quotas."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_settings import NoDecode

from app.settings.group import Group, env

MOST = 2**53 - 1  # what every JSON reader takes for a whole number


Rows = Annotated[int, Field(ge=0, le=MOST)]


class KeyLimits(BaseModel):
    """Quotas of a key or a tenant."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: Annotated[int, Field(ge=0, le=MOST)] | None = None
    stored_bytes: Annotated[int, Field(ge=0, le=MOST)] | None = None
    chunks: Annotated[int, Field(ge=0, le=MOST)] | None = None
    upload_bytes: Annotated[int, Field(ge=1, le=MOST)] | None = None
    embedding_tokens_per_day: Annotated[int, Field(ge=0, le=MOST)] | None = None
    searches_per_second: Annotated[float, Field(ge=0.01, le=100_000)] | None = None
    concurrent_searches: Annotated[int, Field(ge=1, le=100_000)] | None = None
    event_streams: Annotated[int, Field(ge=0, le=100_000)] | None = None
    concurrent_ingestions: Annotated[int, Field(ge=1, le=1000)] | None = None


class Limits(KeyLimits):
    """Quotas of a tenant; one that is null or left out is the default of the service, or no limit."""

    knowledge_bases: Rows | None = None
    api_keys: Rows | None = None
    agents: Rows | None = None
    prompt_versions: Rows | None = None
    webhooks: Rows | None = None
    kept_answers: Rows | None = None
    publications: Rows | None = None
    files: Rows | None = None
    file_batches: Rows | None = None
    batch_files: Rows | None = None
    chats: Rows | None = None


class QuotaSettings(Group):
    """Quotas of new tenants, and what one process gives a tenant without quotas of searches and event streams."""

    default: Annotated[Limits | None, NoDecode] = env("DEFAULT_QUOTAS", None)
    searches_per_second: float = env("TENANT_SEARCHES_PER_SECOND", 100.0, ge=0.01, le=100_000)
    concurrent_searches: int = env("TENANT_CONCURRENT_SEARCHES", 100, ge=1, le=100_000)
    event_streams: int = env("TENANT_EVENT_STREAMS", 250, ge=0, le=100_000)

    @field_validator("default", mode="before")
    @classmethod
    def _object(cls, value: Any) -> Any:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            raise ValueError("must be a JSON object of quotas") from None
