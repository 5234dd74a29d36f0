"""Create the configured chat and vision models. Their SDK is imported only if one is configured."""

from app.inference.chat import ChatModel
from app.inference.vision import VisionModel
from app.settings import ModelSettings


def create_vision_model(settings: ModelSettings) -> VisionModel | None:
    """Create the vision model, or return None if none is configured."""
    if settings.vision_model is None or settings.chat_base_url is None:
        return None
    from app.inference.vision.openai_vision import OpenAIVision

    key = settings.chat_api_key.get_secret_value() if settings.chat_api_key else None
    return OpenAIVision(settings.chat_base_url, key, settings.vision_model)


def create_chat_model(settings: ModelSettings, model: str | None) -> ChatModel | None:
    """Create a chat model for one use. Uses do not share a chat model, because their timeouts differ.

    Args:
        settings: Settings of the models.
        model: Name of the model.

    Returns:
        The chat model, or None without a name or an endpoint.
    """
    if model is None or settings.chat_base_url is None:
        return None
    from app.inference.chat.openai_chat import OpenAIChat

    key = settings.chat_api_key.get_secret_value() if settings.chat_api_key else None
    return OpenAIChat(settings.chat_base_url, key, model)
