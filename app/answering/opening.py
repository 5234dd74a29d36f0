"""The chat model as answers use it, where one is configured."""

from dataclasses import dataclass

from app.inference.chat import ChatModel
from app.inference.opening import open_chat
from app.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class AnswerModels:
    """One model twice, for each use has its own patience: it writes answers, and is asked about sources."""

    writer: ChatModel
    reader: ChatModel

    async def close(self) -> None:
        """Let go of connections."""
        await self.writer.close()
        await self.reader.close()


def open_answer_models(settings: ModelSettings) -> AnswerModels | None:
    """None where no chat model is configured."""
    writer, reader = (open_chat(settings, settings.chat_model) for _ in range(2))
    return AnswerModels(writer, reader) if writer is not None and reader is not None else None
