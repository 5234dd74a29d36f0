"""Create the chat models of answers, if a chat model is configured."""

from dataclasses import dataclass

from app.inference.chat import ChatModel
from app.inference.factory import create_chat_model
from app.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class AnswerModels:
    """Chat models of answers: two clients of one model, because each use needs a separate circuit breaker.

    Attributes:
        answer_model: Writes answers.
        analysis_model: Compresses sources and finds citations, with short timeouts.
    """

    answer_model: ChatModel
    analysis_model: ChatModel

    async def close(self) -> None:
        """Close the connections."""
        await self.answer_model.close()
        await self.analysis_model.close()


def create_answer_models(settings: ModelSettings) -> AnswerModels | None:
    """Create the chat models, or return None if no chat model is configured."""
    answer_model, analysis_model = (create_chat_model(settings, settings.chat_model) for _ in range(2))
    return (
        AnswerModels(answer_model, analysis_model) if answer_model is not None and analysis_model is not None else None
    )
