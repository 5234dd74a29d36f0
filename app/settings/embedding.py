"""Settings of the embedding models: the default one, and any number of further ones."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from app.settings.environment import read_environment
from app.settings.settings_group import PREFIX, HttpUrl, SettingsGroup, env_field, make_absolute

EMBEDDED_MODEL = "all-MiniLM-L6-v2"
# What can be said of the embedded model in the list; the rest is about endpoints.
EMBEDDED_MODEL_FIELDS = {"provider", "model", "precision", "query_prefix", "document_prefix"}


class AdditionalEmbeddingModel(BaseModel):
    """A further model: an OpenAI-compatible endpoint, or the embedded one; fields as in EmbeddingSettings.

    ``api_key`` is read from the variable that ``api_key_env`` names: the list itself is easily shown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Literal["embedded"] | None = None
    base_url: HttpUrl | None = None
    api_key_env: str | None = None
    api_key: SecretStr | None = None
    model: str = Field(EMBEDDED_MODEL, min_length=1)
    dimensions: int | None = Field(None, ge=1, le=4000)
    send_dimensions: bool = False
    max_tokens: int = Field(8191, ge=32)
    query_prefix: str = ""
    document_prefix: str = ""
    images: Literal["input", "messages"] | None = None
    timeout_seconds: float = Field(30.0, gt=0, le=600)
    requests_per_minute: int | None = Field(None, ge=1, le=10_000_000)
    tokens_per_minute: int | None = Field(None, ge=1, le=1_000_000_000)
    precision: Literal["fp32", "int8"] = "fp32"

    @model_validator(mode="before")
    @classmethod
    def _read_api_key(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "api_key_env" not in value:
            return value
        if not (key := read_environment().get(str(value["api_key_env"]))):
            raise ValueError("api_key_env names a variable that is not set")  # which may be a key, by mistake
        return {**value, "api_key": key}

    @model_validator(mode="after")
    def _check_provider(self) -> Self:
        if self.api_key is not None and self.api_key_env is None:
            raise ValueError("takes no api_key, but api_key_env: the name of the variable that holds it")
        field_names = self.model_fields_set
        if self.provider is None:
            missing = [name for name in ("model", "base_url", "dimensions") if name not in field_names]
            if missing:
                raise ValueError(f"{missing[0]} must be set too")
            if "precision" in field_names:
                raise ValueError("precision is the embedded model's")
        elif invalid := sorted(field_names - EMBEDDED_MODEL_FIELDS):
            raise ValueError(f"{invalid[0]} is not for the embedded model")
        elif self.model != EMBEDDED_MODEL:
            raise ValueError(f"the embedded model is {EMBEDDED_MODEL}")
        return self

    def format_setting_name(self, field: str) -> str:
        """Return the operator's name of a field, for messages."""
        setting = "api_key_env" if field == "api_key" else field
        return f"{setting} of {self.model!r} in {PREFIX}EMBEDDING_MODELS"


class EmbeddingSettings(SettingsGroup):
    """A plugin's embedder where one is named, an OpenAI-compatible endpoint where a base URL is given, else MiniLM."""

    required_together = ("base_url", "dimensions")
    provider: str | None = env_field("EMBEDDING_PROVIDER", None)
    base_url: HttpUrl | None = env_field("EMBEDDING_BASE_URL", None)
    api_key: SecretStr | None = env_field("EMBEDDING_API_KEY", None)
    model: str = env_field("EMBEDDING_MODEL", EMBEDDED_MODEL)
    dimensions: int | None = env_field("EMBEDDING_DIMENSIONS", None, ge=1, le=4000)
    send_dimensions: bool = env_field("EMBEDDING_SEND_DIMENSIONS", False)
    max_tokens: int = env_field("EMBEDDING_MAX_TOKENS", 8191, ge=32)
    query_prefix: str = env_field("EMBEDDING_QUERY_PREFIX", "")
    document_prefix: str = env_field("EMBEDDING_DOCUMENT_PREFIX", "")
    images: Literal["input", "messages"] | None = env_field("EMBEDDING_IMAGES", None)
    timeout_seconds: float = env_field("EMBEDDING_TIMEOUT_SECONDS", 30.0, gt=0, le=600)
    requests_per_minute: int | None = env_field("EMBEDDING_REQUESTS_PER_MINUTE", None, ge=1, le=10_000_000)
    tokens_per_minute: int | None = env_field("EMBEDDING_TOKENS_PER_MINUTE", None, ge=1, le=1_000_000_000)
    precision: Literal["fp32", "int8"] = env_field("EMBEDDING_PRECISION", "fp32")
    weights_dir: Annotated[Path, AfterValidator(make_absolute)] | None = env_field("EMBEDDING_WEIGHTS_DIR", None)
    models: Annotated[tuple[AdditionalEmbeddingModel, ...], NoDecode] = env_field("EMBEDDING_MODELS", ())

    @field_validator("models", mode="before")
    @classmethod
    def _parse_models(cls, value: Any) -> Any:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            raise ValueError("must be a JSON list of models") from None

    @model_validator(mode="after")
    def _check_provider(self) -> Self:
        if self.provider is not None:  # a plugin makes of the others what it likes
            return self
        endpoint_values = {"MODEL": self.model != EMBEDDED_MODEL, "API_KEY": self.api_key, "IMAGES": self.images}
        for name, value in endpoint_values.items():
            if self.base_url is None and value:
                raise ValueError(f"{PREFIX}EMBEDDING_{name} needs {PREFIX}EMBEDDING_BASE_URL")
        if self.base_url is None and (self.requests_per_minute or self.tokens_per_minute):
            raise ValueError(f"{PREFIX}EMBEDDING_BASE_URL must be set where there are limits per minute")
        return self

    def format_setting_name(self, field: str) -> str:
        """Return the operator's name of a field, for messages."""
        return f"{PREFIX}EMBEDDING_{field.upper()}"
