"""Settings of quotas."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_settings import NoDecode

from app.settings.settings_group import SettingsGroup, env_field

MAX_INTEGER = 2**53 - 1  # what every JSON reader takes for a whole number


RowCount = Annotated[int, Field(ge=0, le=MAX_INTEGER)]


class KeyLimits(BaseModel):
    """Quotas of a key or a tenant."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = None
    stored_bytes: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = None
    chunks: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = None
    upload_bytes: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    embedding_tokens_per_day: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = None
    searches_per_second: Annotated[float, Field(ge=0.01, le=100_000)] | None = None
    concurrent_searches: Annotated[int, Field(ge=1, le=100_000)] | None = None
    event_streams: Annotated[int, Field(ge=0, le=100_000)] | None = None
    concurrent_ingestions: Annotated[int, Field(ge=1, le=1000)] | None = None


class QuotaLimits(KeyLimits):
    """Quotas of a tenant; one that is null or left out is the default of the service, or no limit."""

    knowledge_bases: RowCount | None = None
    api_keys: RowCount | None = None
    agents: RowCount | None = None
    prompt_versions: RowCount | None = None
    webhooks: RowCount | None = None
    stored_responses: RowCount | None = None
    sql_views: RowCount | None = None
    files: RowCount | None = None
    file_batches: RowCount | None = None
    batch_files: RowCount | None = None
    chats: RowCount | None = None


class QuotaSettings(SettingsGroup):
    """Quotas of new tenants, and what one process gives a tenant without quotas of searches and event streams."""

    default: Annotated[QuotaLimits | None, NoDecode] = env_field("DEFAULT_QUOTAS", None)
    searches_per_second: float = env_field("TENANT_SEARCHES_PER_SECOND", 100.0, ge=0.01, le=100_000)
    concurrent_searches: int = env_field("TENANT_CONCURRENT_SEARCHES", 100, ge=1, le=100_000)
    event_streams: int = env_field("TENANT_EVENT_STREAMS", 250, ge=0, le=100_000)

    @field_validator("default", mode="before")
    @classmethod
    def _parse_default(cls, value: Any) -> Any:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            raise ValueError("must be a JSON object of quotas") from None
