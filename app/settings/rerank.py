"""Settings of the reranker."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, SecretStr, model_validator

from app.settings.settings_group import PREFIX, HttpUrl, SettingsGroup, env_field, make_absolute

RerankApi = Literal["tei", "cohere", "jina", "vllm"]


class RerankSettings(SettingsGroup):
    """Reranker: a model that reorders the best results of a search, from a plugin, an endpoint or a directory."""

    provider: str | None = env_field(
        "RERANK_PROVIDER",
        None,
        description="Name of the entry point of a plugin's reranker. The plugin may read the "
        "other settings of this group.",
        read_by="API",
    )
    url: HttpUrl | None = env_field(
        "RERANK_URL",
        None,
        description="Complete URL of the rerank endpoint.",
        examples=["http://tei:8080/rerank", "https://api.cohere.com/v2/rerank"],
        read_by="API",
    )
    api_key: SecretStr | None = env_field(
        "RERANK_API_KEY",
        None,
        description="API key of the rerank endpoint, if the endpoint requires one.",
        read_by="API",
    )
    model: str | None = env_field(
        "RERANK_MODEL",
        None,
        description="Name of the rerank model, if the endpoint requires one.",
        read_by="API",
    )
    api: RerankApi = env_field(
        "RERANK_API",
        "cohere",
        description="Format of the endpoint's requests and responses. Most endpoints use the format of Cohere.",
        read_by="API",
    )
    local: Annotated[Path, AfterValidator(make_absolute)] | None = env_field(
        "RERANK_LOCAL",
        None,
        description="Directory of a local cross-encoder in the layout of model hubs: model.onnx or onnx/model.onnx, "
        "tokenizer.json, config.json. If the directory has several models, the path of one ONNX file.",
        examples=["./models/ms-marco-MiniLM-L6-v2"],
        read_by="API",
    )
    max_tokens: int | None = env_field(
        "RERANK_MAX_TOKENS",
        None,
        ge=32,
        le=8192,
        unit="tokens",
        description="Maximum number of tokens of a query and a text together that the local model reads. The query "
        "has at most half. If it is not set, the limit of the model's files, at most 512.",
        read_by="API",
    )
    max_documents: int | None = env_field(
        "RERANK_MAX_DOCUMENTS",
        None,
        ge=1,
        le=1000,
        unit="texts",
        description="Maximum number of texts in one request. If it is not set, 32 for tei (its default limit) and "
        "1,000 for the other formats.",
        read_by="API",
    )
    max_characters: int = env_field(
        "RERANK_MAX_CHARACTERS",
        4000,
        ge=100,
        le=100_000,
        unit="characters",
        description="Number of characters of each text that the reranker receives. One token of its limit is about "
        "four characters.",
        read_by="API",
    )

    @property
    def is_configured(self) -> bool:
        """Whether the settings name a reranker."""
        return self.provider is not None or self.url is not None or self.local is not None

    @model_validator(mode="after")
    def _check_local(self) -> Self:
        for name in ("url", "provider"):
            if self.local is not None and getattr(self, name) is not None:
                raise ValueError(f"{PREFIX}RERANK_LOCAL and {PREFIX}RERANK_{name.upper()} exclude each other")
        if self.local is None and self.max_tokens is not None and self.provider is None:
            raise ValueError(f"{PREFIX}RERANK_MAX_TOKENS needs {PREFIX}RERANK_LOCAL")
        return self

    @model_validator(mode="after")
    def _require_url(self) -> Self:
        for name in ("api_key", "model", "max_documents"):
            if self.provider is None and self.url is None and getattr(self, name) is not None:
                raise ValueError(f"{PREFIX}RERANK_{name.upper()} needs {PREFIX}RERANK_URL")
        return self
