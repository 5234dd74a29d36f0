"""Settings of quotas."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_settings import NoDecode

from app.settings.group import Group, env

MOST = 2**53 - 1  # what every JSON reader takes for a whole number


class Limits(BaseModel):
    """Quotas as they are set; one that is null, or left out, is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: Annotated[int, Field(ge=0, le=MOST)] | None = None
    stored_bytes: Annotated[int, Field(ge=0, le=MOST)] | None = None
    chunks: Annotated[int, Field(ge=0, le=MOST)] | None = None
    upload_bytes: Annotated[int, Field(ge=1, le=MOST)] | None = None
    embedding_tokens_per_day: Annotated[int, Field(ge=0, le=MOST)] | None = None
    searches_per_second: Annotated[float, Field(ge=0.01, le=100_000)] | None = None
    concurrent_ingestions: Annotated[int, Field(ge=1, le=1000)] | None = None


class QuotaSettings(Group):
    """What a new tenant is given, where the operator does not say otherwise."""

    default: Annotated[Limits | None, NoDecode] = env("DEFAULT_QUOTAS", None)

    @field_validator("default", mode="before")
    @classmethod
    def _object(cls, value: Any) -> Any:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            raise ValueError("must be a JSON object of quotas") from None
