"""Settings of the embedding models: the default model, and a list of additional models."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from app.settings.environment import read_environment
from app.settings.settings_group import PREFIX, HttpUrl, SettingsGroup, env_field, make_absolute

DEFAULT_LOCAL_MODEL = "bge-small-en-v1.5"
ENDPOINT_MAX_TOKENS = 8191
"""Maximum length of an input of an endpoint's model, if no other is set."""

# Fields that an entry of the list may have for a local model; the other fields are for endpoints.
LOCAL_MODEL_FIELDS = {"provider", "model", "precision", "query_prefix", "document_prefix"}


Precision = Literal["fp32", "int8"]
Pooling = Literal["mean", "cls", "last"]


class AdditionalEmbeddingModel(BaseModel):
    """Additional embedding model: an OpenAI-compatible endpoint, or a local model.

    The service reads ``api_key`` from the variable that ``api_key_env`` names, so that the list holds no secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Literal["embedded"] | None = Field(
        None, description="`embedded` for a pinned local model; without it, the entry is an endpoint."
    )
    base_url: HttpUrl | None = Field(None, description="Base URL of the endpoint, including /v1.")
    api_key_env: str | None = Field(None, description="Name of the variable that holds the endpoint's API key.")
    api_key: SecretStr | None = Field(None, description="Not accepted in the list; set `api_key_env`.")
    model: str = Field(DEFAULT_LOCAL_MODEL, min_length=1, description="Name of the model.")
    dimensions: int | None = Field(None, ge=1, le=4000, description="Length of the model's vectors.")
    send_dimensions: bool = Field(False, description="Whether requests ask the endpoint for this length.")
    max_tokens: int = Field(ENDPOINT_MAX_TOKENS, ge=32, description="Maximum length of an input, in tokens.")
    query_prefix: str | None = Field(
        None, description="Text that is put before every query. By default that of a local model, else none."
    )
    document_prefix: str | None = Field(
        None, description="Text that is put before every chunk. By default that of a local model, else none."
    )
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
    precision: Precision | None = Field(
        None, description="Arithmetic of a local model. By default the first of the model's precisions."
    )

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
                raise ValueError("precision is a local model's; remove it, or set provider to embedded")
        elif invalid := sorted(field_names - LOCAL_MODEL_FIELDS):
            raise ValueError(f"{invalid[0]} is not for a local model")
        return self

    def format_setting_name(self, field: str) -> str:
        """Return the name of a field in the configuration, for error messages."""
        setting = "api_key_env" if field == "api_key" else field
        return f"{setting} of {self.model!r} in {PREFIX}EMBEDDING_MODELS"


class EmbeddingSettings(SettingsGroup):
    """Embedding: the default embedding model (a plugin, an endpoint or a local model) and additional models."""

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
        "a local model runs in the service.",
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
        DEFAULT_LOCAL_MODEL,
        description="Name of the endpoint's model, or without an endpoint of a pinned local model: "
        "`carrel models list` shows them. It is a part of the identity of every search index.",
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
    max_tokens: int | None = env_field(
        "EMBEDDING_MAX_TOKENS",
        None,
        ge=32,
        unit="tokens",
        description="Maximum length of an input of the model, which also limits the length of chunks. By default 8191 "
        "for an endpoint, and the limit of its files for the model of CARREL_EMBEDDING_LOCAL.",
        read_by="API and worker",
    )
    query_prefix: str | None = env_field(
        "EMBEDDING_QUERY_PREFIX",
        None,
        description="Text that is put before every query, for models that are trained with prefixes. By default that "
        "of a pinned local model, else none. It is a part of the identity of every search index.",
        read_by="API and worker",
    )
    document_prefix: str | None = env_field(
        "EMBEDDING_DOCUMENT_PREFIX",
        None,
        description="Text that is put before every chunk. By default that of a pinned local model, else none. It is a "
        "part of the identity of every search index.",
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
    precision: Precision | None = env_field(
        "EMBEDDING_PRECISION",
        None,
        description="Arithmetic of a pinned local model. By default int8. all-MiniLM-L6-v2 also has fp32, which is "
        "slower. It is a part of the identity of every search index.",
        read_by="API and worker",
    )
    local: Annotated[Path, AfterValidator(make_absolute)] | None = env_field(
        "EMBEDDING_LOCAL",
        None,
        description="Directory of any other local model, in the layout of model hubs: `model.onnx` or "
        "`onnx/model.onnx`, `tokenizer.json` and, if there, `1_Pooling/config.json`.",
        read_by="API and worker",
    )
    pooling: Pooling | None = env_field(
        "EMBEDDING_POOLING",
        None,
        description="How the model of CARREL_EMBEDDING_LOCAL makes the vector of a text: the mean of its tokens' "
        "vectors, or the first (cls) or last token's vector. By default that of its files, else the mean.",
        read_by="API and worker",
    )
    weights_dir: Annotated[Path, AfterValidator(make_absolute)] | None = env_field(
        "EMBEDDING_WEIGHTS_DIR",
        None,
        description="Directory with a sub-directory for each pinned local model. If it is not set, the directory that "
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
        if self.base_url is not None:
            self._check_endpoint()
            return self
        for name, value in {"API_KEY": self.api_key, "IMAGES": self.images}.items():
            if value:
                raise ValueError(f"{PREFIX}EMBEDDING_{name} needs {PREFIX}EMBEDDING_BASE_URL")
        if self.requests_per_minute or self.tokens_per_minute:
            raise ValueError(f"{PREFIX}EMBEDDING_BASE_URL must be set if a limit per minute is set")
        self._check_local()
        return self

    def _check_local(self) -> None:
        if self.local is None:
            for name in ("pooling", "max_tokens"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{PREFIX}EMBEDDING_{name.upper()} is not for {self.model}; remove it")
            return
        for name in ("model", "precision"):
            if name in self.model_fields_set and getattr(self, name) is not None:
                raise ValueError(f"{PREFIX}EMBEDDING_{name.upper()} is not for {PREFIX}EMBEDDING_LOCAL; remove one")

    def _check_endpoint(self) -> None:
        for name in ("local", "pooling", "precision"):
            if getattr(self, name) is not None:
                message = f"{PREFIX}EMBEDDING_{name.upper()} is not for {PREFIX}EMBEDDING_BASE_URL; remove one"
                raise ValueError(message)
        if "model" not in self.model_fields_set:
            raise ValueError(f"{PREFIX}EMBEDDING_MODEL must be set with {PREFIX}EMBEDDING_BASE_URL")

    def format_setting_name(self, field: str) -> str:
        """Return the name of a field in the configuration, for error messages."""
        return f"{PREFIX}EMBEDDING_{field.upper()}"
