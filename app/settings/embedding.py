"""Settings of the embedding models: the default model, and a list of additional models."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from app.settings.environment import read_environment
from app.settings.settings_group import PREFIX, HttpUrl, SettingsGroup, env_field, make_absolute

EMBEDDED_MODEL = "all-MiniLM-L6-v2"
# Fields that an entry of the list may have for the embedded model; the other fields are for endpoints.
EMBEDDED_MODEL_FIELDS = {"provider", "model", "precision", "query_prefix", "document_prefix"}


class AdditionalEmbeddingModel(BaseModel):
    """Additional embedding model: an OpenAI-compatible endpoint, or the embedded model.

    The service reads ``api_key`` from the variable that ``api_key_env`` names, so that the list holds no secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Literal["embedded"] | None = Field(
        None, description="`embedded` for the embedded model; without it, the entry is an endpoint."
    )
    base_url: HttpUrl | None = Field(None, description="Base URL of the endpoint, including /v1.")
    api_key_env: str | None = Field(None, description="Name of the variable that holds the endpoint's API key.")
    api_key: SecretStr | None = Field(None, description="Not accepted in the list; set `api_key_env`.")
    model: str = Field(EMBEDDED_MODEL, min_length=1, description="Name of the model.")
    dimensions: int | None = Field(None, ge=1, le=4000, description="Length of the model's vectors.")
    send_dimensions: bool = Field(False, description="Whether requests ask the endpoint for this length.")
    max_tokens: int = Field(8191, ge=32, description="Maximum length of an input, in tokens.")
    query_prefix: str = Field("", description="Text that is put before every query.")
    document_prefix: str = Field("", description="Text that is put before every chunk.")
    images: Literal["input", "messages"] | None = Field(
        None, description="Form of images in requests to a multimodal model: `input` or `messages`."
    )
    timeout_seconds: float = Field(30.0, gt=0, le=600, description="Maximum time of one request, in seconds.")
    requests_per_minute: int | None = Field(
        None, ge=1, le=10_000_000, description="Maximum number of requests per minute, of all processes together."
    )
    tokens_per_minute: int | None = Field(
        None, ge=1, le=1_000_000_000, description="Maximum number of tokens per minute, of all processes together."
    )
    precision: Literal["fp32", "int8"] = Field("fp32", description="Arithmetic of the embedded model.")

    @model_validator(mode="before")
    @classmethod
    def _read_api_key(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "api_key_env" not in value:
            return value
        if not (key := read_environment().get(str(value["api_key_env"]))):
            raise ValueError(
                "api_key_env names a variable that is not set"
            )  # without the name, which may be a key by mistake
        return {**value, "api_key": key}

    @model_validator(mode="after")
    def _check_provider(self) -> Self:
        if self.api_key is not None and self.api_key_env is None:
            raise ValueError("takes no api_key, but api_key_env: the name of the variable that holds the key")
        field_names = self.model_fields_set
        if self.provider is None:
            missing = [name for name in ("model", "base_url", "dimensions") if name not in field_names]
            if missing:
                raise ValueError(f"{missing[0]} must be set too")
            if "precision" in field_names:
                raise ValueError("precision is the embedded model's; remove it, or set provider to embedded")
        elif invalid := sorted(field_names - EMBEDDED_MODEL_FIELDS):
            raise ValueError(f"{invalid[0]} is not for the embedded model")
        elif self.model != EMBEDDED_MODEL:
            raise ValueError(f"the embedded model is {EMBEDDED_MODEL}")
        return self

    def format_setting_name(self, field: str) -> str:
        """Return the name of a field in the configuration, for error messages."""
        setting = "api_key_env" if field == "api_key" else field
        return f"{setting} of {self.model!r} in {PREFIX}EMBEDDING_MODELS"


class EmbeddingSettings(SettingsGroup):
    """Embedding: the default embedding model (a plugin, an endpoint or the embedded MiniLM) and additional models."""

    required_together = ("base_url", "dimensions")
    provider: str | None = env_field(
        "EMBEDDING_PROVIDER",
        None,
        description="Name of the entry point of a plugin's embedder. The plugin may read the other settings of this "
        "group.",
        read_by="API and worker",
    )
    base_url: HttpUrl | None = env_field(
        "EMBEDDING_BASE_URL",
        None,
        description="Base URL of an OpenAI-compatible endpoint, including /v1. If neither a URL nor a plugin is set, "
        "the embedded model runs in the service.",
        read_by="API and worker",
    )
    api_key: SecretStr | None = env_field(
        "EMBEDDING_API_KEY",
        None,
        description="API key of the endpoint, if the endpoint requires one.",
        read_by="API and worker",
    )
    model: str = env_field(
        "EMBEDDING_MODEL",
        EMBEDDED_MODEL,
        description="Name of the model. It is a part of the identity of every search index.",
        read_by="API and worker",
    )
    dimensions: int | None = env_field(
        "EMBEDDING_DIMENSIONS",
        None,
        ge=1,
        le=4000,
        unit="dimensions",
        description="Length of the model's vectors. Required with CARREL_EMBEDDING_BASE_URL.",
        read_by="API and worker",
    )
    send_dimensions: bool = env_field(
        "EMBEDDING_SEND_DIMENSIONS",
        False,
        description="Whether requests ask the endpoint for vectors of this length, which some models can shorten.",
        read_by="API and worker",
    )
    max_tokens: int = env_field(
        "EMBEDDING_MAX_TOKENS",
        8191,
        ge=32,
        unit="tokens",
        description="Maximum length of an input of the endpoint's model. It also limits the length of chunks.",
        read_by="API and worker",
    )
    query_prefix: str = env_field(
        "EMBEDDING_QUERY_PREFIX",
        "",
        description="Text that is put before every query, for models that are trained with prefixes. "
        "It is a part of the identity of every search index.",
        read_by="API and worker",
    )
    document_prefix: str = env_field(
        "EMBEDDING_DOCUMENT_PREFIX",
        "",
        description="Text that is put before every chunk. It is a part of the identity of every search index.",
        read_by="API and worker",
    )
    images: Literal["input", "messages"] | None = env_field(
        "EMBEDDING_IMAGES",
        None,
        description="Form of images in requests to a multimodal model: `input` (Jina, SGLang) or `messages` (vLLM).",
        read_by="API and worker",
    )
    timeout_seconds: float = env_field(
        "EMBEDDING_TIMEOUT_SECONDS",
        30.0,
        gt=0,
        le=600,
        unit="seconds",
        description="Maximum time of one request to the endpoint.",
        read_by="API and worker",
    )
    requests_per_minute: int | None = env_field(
        "EMBEDDING_REQUESTS_PER_MINUTE",
        None,
        ge=1,
        le=10_000_000,
        unit="requests per minute",
        description="The endpoint's limit on requests. All processes of the database share it. By default there is "
        "no limit.",
        read_by="API and worker",
    )
    tokens_per_minute: int | None = env_field(
        "EMBEDDING_TOKENS_PER_MINUTE",
        None,
        ge=1,
        le=1_000_000_000,
        unit="tokens per minute",
        description="The endpoint's limit on tokens. All processes of the database share it, and queries go before "
        "documents. By default there is no limit.",
        read_by="API and worker",
    )
    precision: Literal["fp32", "int8"] = env_field(
        "EMBEDDING_PRECISION",
        "fp32",
        description="Arithmetic of the embedded model; int8 is faster. It is a part of the identity of every search "
        "index.",
        read_by="API and worker",
    )
    weights_dir: Annotated[Path, AfterValidator(make_absolute)] | None = env_field(
        "EMBEDDING_WEIGHTS_DIR",
        None,
        description="Directory of the embedded model's weights. If it is not set, the directory that "
        "`carrel models pull` writes to.",
        read_by="API and worker",
    )
    models: Annotated[tuple[AdditionalEmbeddingModel, ...], NoDecode] = env_field(
        "EMBEDDING_MODELS",
        (),
        description="Additional embedding models as a JSON list. Each knowledge base uses one model. "
        "All processes need the same list.",
        examples=['[{"model": "bge-m3", "base_url": "http://models:8080/v1", "dimensions": 1024}]'],
        read_by="API and worker",
    )

    @field_validator("models", mode="before")
    @classmethod
    def _parse_models(cls, value: Any) -> Any:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            raise ValueError("must be a JSON list of models") from None

    @model_validator(mode="after")
    def _check_provider(self) -> Self:
        if self.provider is not None:  # a plugin decides which of the other settings it needs
            return self
        endpoint_values = {"MODEL": self.model != EMBEDDED_MODEL, "API_KEY": self.api_key, "IMAGES": self.images}
        for name, value in endpoint_values.items():
            if self.base_url is None and value:
                raise ValueError(f"{PREFIX}EMBEDDING_{name} needs {PREFIX}EMBEDDING_BASE_URL")
        if self.base_url is None and (self.requests_per_minute or self.tokens_per_minute):
            raise ValueError(f"{PREFIX}EMBEDDING_BASE_URL must be set if a limit per minute is set")
        return self

    def format_setting_name(self, field: str) -> str:
        """Return the name of a field in the configuration, for error messages."""
        return f"{PREFIX}EMBEDDING_{field.upper()}"
