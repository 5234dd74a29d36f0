"""The chat and vision models that the settings name; an SDK is imported only for one that is."""

from app.inference.chat import ChatModel
from app.inference.vision import VisionModel
from app.settings import ModelSettings


def create_vision_model(settings: ModelSettings) -> VisionModel | None:
    """What describes pictures, where one is configured."""
    if settings.vision_model is None or settings.chat_base_url is None:
        return None
    from app.inference.vision.openai_vision import OpenAIVision

    key = settings.chat_api_key.get_secret_value() if settings.chat_api_key else None
    return OpenAIVision(settings.chat_base_url, key, settings.vision_model)


def create_chat_model(settings: ModelSettings, model: str | None) -> ChatModel | None:
    """What writes text by this model, where one is named; have one for each use, for each has its own patience."""
    if model is None or settings.chat_base_url is None:
        return None
    from app.inference.chat.openai_chat import OpenAIChat

    key = settings.chat_api_key.get_secret_value() if settings.chat_api_key else None
    return OpenAIChat(settings.chat_base_url, key, model)
