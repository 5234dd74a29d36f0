"""Settings of the reranker."""

from typing import Literal, Self

from pydantic import SecretStr, model_validator

from app.settings.settings_group import PREFIX, HttpUrl, SettingsGroup, env_field

RerankApi = Literal["tei", "cohere", "jina", "vllm"]


class RerankSettings(SettingsGroup):
    """A plugin's reranker where one is named, an endpoint's where a URL is given, else none."""

    provider: str | None = env_field("RERANK_PROVIDER", None)
    url: HttpUrl | None = env_field("RERANK_URL", None)
    api_key: SecretStr | None = env_field("RERANK_API_KEY", None)
    model: str | None = env_field("RERANK_MODEL", None)
    api: RerankApi = env_field("RERANK_API", "cohere")
    max_documents: int | None = env_field("RERANK_MAX_DOCUMENTS", None, ge=1, le=1000)
    max_characters: int = env_field("RERANK_MAX_CHARACTERS", 4000, ge=100, le=100_000)

    @property
    def is_configured(self) -> bool:
        """Whether there is a reranker."""
        return self.provider is not None or self.url is not None

    @model_validator(mode="after")
    def _require_url(self) -> Self:
        for name in ("api_key", "model", "max_documents"):
            if not self.is_configured and getattr(self, name) is not None:
                raise ValueError(f"{PREFIX}RERANK_{name.upper()} needs {PREFIX}RERANK_URL")
        return self
