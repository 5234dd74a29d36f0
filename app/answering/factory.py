"""The chat model as answers use it, where one is configured."""

from dataclasses import dataclass

from app.inference.chat import ChatModel
from app.inference.factory import create_chat_model
from app.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class AnswerModels:
    """One model twice, for each use has its own patience: it writes answers, and is asked about sources."""

    answer_model: ChatModel
    analysis_model: ChatModel

    async def close(self) -> None:
        """Let go of connections."""
        await self.answer_model.close()
        await self.analysis_model.close()


def create_answer_models(settings: ModelSettings) -> AnswerModels | None:
    """None where no chat model is configured."""
    answer_model, analysis_model = (create_chat_model(settings, settings.chat_model) for _ in range(2))
    return (
        AnswerModels(answer_model, analysis_model) if answer_model is not None and analysis_model is not None else None
    )
