"""Settings of the chat, rewrite and vision models, which share one endpoint."""

from typing import Self

from pydantic import SecretStr, model_validator

from app.settings.settings_group import PREFIX, HttpUrl, SettingsGroup, env_field


class ModelSettings(SettingsGroup):
    """Chat and vision models: models of one OpenAI-compatible endpoint for answers, query rewriting and images."""

    required_together = ("chat_base_url", "chat_model")
    chat_base_url: HttpUrl | None = env_field(
        "CHAT_BASE_URL",
        None,
        description="Base URL of the endpoint, including /v1.",
        examples=["http://localhost:8080/v1"],
        read_by="API and worker",
    )
    chat_api_key: SecretStr | None = env_field(
        "CHAT_API_KEY",
        None,
        description="API key of the endpoint, if the endpoint requires one.",
        read_by="API and worker",
    )
    chat_model: str | None = env_field(
        "CHAT_MODEL",
        None,
        description="Name of the model that writes answers and enriches documents. Required with CARREL_CHAT_BASE_URL.",
        read_by="API and worker",
    )
    chat_timeout_seconds: float = env_field(
        "CHAT_TIMEOUT_SECONDS",
        60.0,
        gt=0,
        le=600,
        unit="seconds",
        description="Maximum time for the chat model to compress the sources of an answer and to write it, and for a "
        "call of the enrichment. The rewriting of queries has a share of the search's time instead.",
        read_by="API and worker",
    )
    rewrite_model: str | None = env_field(
        "REWRITE_MODEL",
        None,
        description="Name of a smaller model at the same endpoint for the rewriting of queries. If it is not set, "
        "CARREL_CHAT_MODEL rewrites queries. A knowledge base may choose it for its enrichment.",
        read_by="API and worker",
    )
    vision_model: str | None = env_field(
        "VISION_MODEL",
        None,
        description="Name of a model at the same endpoint that describes the images of documents, so that searches "
        "can find them. Each image costs one call.",
        read_by="worker",
    )

    @model_validator(mode="after")
    def _require_base_url(self) -> Self:
        for name, model in {"REWRITE_MODEL": self.rewrite_model, "VISION_MODEL": self.vision_model}.items():
            if model is not None and self.chat_base_url is None:
                raise ValueError(f"{PREFIX}{name} needs {PREFIX}CHAT_BASE_URL")
        return self
