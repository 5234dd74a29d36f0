"""Chat models of the enrichment, by their name."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.inference.chat import ChatModel, ChatNotConfigured
from app.inference.factory import create_chat_model
from app.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class EnrichmentModels:
    """Chat models that may enrich documents: those that the service names. The first one is the default."""

    models: Mapping[str, ChatModel]
    timeout_seconds: float

    def get(self, name: str | None) -> ChatModel:
        """Return a chat model, or the default for None.

        Raises:
            ChatNotConfigured: The service has no such chat model.
        """
        model = next(iter(self.models.values()), None) if name is None else self.models.get(name)
        if model is None:
            raise ChatNotConfigured(retry_after=60.0)
        return model

    def get_name(self, name: str | None) -> str | None:
        """Return the name of the model that enriches, or None if the service has no chat model."""
        return name or next(iter(self.models), None)

    async def close(self) -> None:
        """Close the connections."""
        for model in self.models.values():
            await model.close()


def create_enrichment_models(settings: ModelSettings) -> EnrichmentModels:
    """Create a client for each chat model that the settings name."""
    names = dict.fromkeys(filter(None, (settings.chat_model, settings.rewrite_model)))
    created = {name: create_chat_model(settings, name) for name in names}
    models = {name: model for name, model in created.items() if model is not None}
    return EnrichmentModels(models, settings.chat_timeout_seconds)
