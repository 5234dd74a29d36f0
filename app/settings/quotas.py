"""Settings of quotas."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_settings import NoDecode

from app.settings.settings_group import SettingsGroup, env_field

MAX_INTEGER = 2**53 - 1  # the largest integer that every JSON parser reads exactly


RowCount = Annotated[int, Field(ge=0, le=MAX_INTEGER)]


class KeyLimits(BaseModel):
    """Quotas of an API key or a tenant; null means no quota."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: RowCount | None = Field(None, description="Maximum number of documents.", examples=[1000])
    stored_bytes: RowCount | None = Field(
        None,
        description="Maximum size of all stored files, in bytes. The newest version of each document counts.",
        examples=[10737418240],
    )
    chunks: RowCount | None = Field(
        None, description="Maximum number of chunks. A document that exceeds it fails.", examples=[100000]
    )
    upload_bytes: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = Field(
        None, description="Maximum size of one uploaded file, in bytes.", examples=[104857600]
    )
    embedding_tokens_per_day: RowCount | None = Field(
        None, description="Maximum number of embedded tokens per day (UTC).", examples=[5000000]
    )
    searches_per_second: Annotated[float, Field(ge=0.01, le=100_000)] | None = Field(
        None,
        description="Maximum number of searches per second. A burst of twice this number is allowed.",
        examples=[20.0],
    )
    concurrent_searches: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="Maximum number of searches at the same time, in each API process.", examples=[10]
    )
    event_streams: Annotated[int, Field(ge=0, le=100_000)] | None = Field(
        None, description="Maximum number of event streams at the same time, in each API process.", examples=[50]
    )
    concurrent_ingestions: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Maximum number of documents that are ingested at the same time.", examples=[4]
    )


class QuotaLimits(KeyLimits):
    """Quotas of a tenant. If a quota is null or left out, the default of the service applies; some have no default."""

    knowledge_bases: RowCount | None = Field(
        None, description="Maximum number of knowledge bases and vector stores.", examples=[100]
    )
    api_keys: RowCount | None = Field(None, description="Maximum number of valid API keys.", examples=[1000])
    agents: RowCount | None = Field(None, description="Maximum number of agent bindings.", examples=[1000])
    prompt_versions: RowCount | None = Field(
        None, description="Maximum number of versions of all prompts.", examples=[1000]
    )
    webhooks: RowCount | None = Field(None, description="Maximum number of webhooks.", examples=[20])
    stored_responses: RowCount | None = Field(
        None, description="Maximum number of responses that are stored for an `Idempotency-Key`.", examples=[100000]
    )
    sql_views: RowCount | None = Field(None, description="Maximum number of SQL views.", examples=[10])
    files: RowCount | None = Field(None, description="Maximum number of stored files.", examples=[10000])
    file_batches: RowCount | None = Field(
        None, description="Maximum number of file batches of vector stores.", examples=[1000]
    )
    batch_files: RowCount | None = Field(
        None, description="Maximum number of files in file batches.", examples=[100000]
    )
    chats: RowCount | None = Field(None, description="Maximum number of chats.", examples=[100000])
    golden_sets: RowCount | None = Field(None, description="Maximum number of golden sets.", examples=[100])
    golden_items: RowCount | None = Field(
        None, description="Maximum number of items of all golden sets.", examples=[10000]
    )
    evaluations: RowCount | None = Field(None, description="Maximum number of stored evaluations.", examples=[100])


class QuotaSettings(SettingsGroup):
    """Quotas: default quotas of new tenants, and rate limits of searches and event streams for tenants without such
    quotas.
    """

    default: Annotated[QuotaLimits | None, NoDecode] = env_field(
        "DEFAULT_QUOTAS",
        None,
        description="Quotas of new tenants as a JSON object. If a quota is left out, the default of the service "
        "applies; some quotas have no default.",
        examples=['{"documents": 10000, "searches_per_second": 20}'],
        read_by="API",
    )
    searches_per_second: float = env_field(
        "TENANT_SEARCHES_PER_SECOND",
        100.0,
        ge=0.01,
        le=100_000,
        unit="searches per second",
        description="Rate limit of searches in each API process, for a tenant without this quota. "
        "A burst of twice this number is allowed.",
        read_by="API",
    )
    concurrent_searches: int = env_field(
        "TENANT_CONCURRENT_SEARCHES",
        100,
        ge=1,
        le=100_000,
        unit="searches",
        description="Maximum number of searches at the same time in each API process, for a tenant without this quota.",
        read_by="API",
    )
    event_streams: int = env_field(
        "TENANT_EVENT_STREAMS",
        250,
        ge=0,
        le=100_000,
        unit="event streams",
        description="Maximum number of event streams at the same time in each API process, for a tenant without this "
        "quota. An upload with `wait` counts as one.",
        read_by="API",
    )

    @field_validator("default", mode="before")
    @classmethod
    def _parse_default(cls, value: Any) -> Any:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            raise ValueError("must be a JSON object of quotas") from None
