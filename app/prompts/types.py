"""The nouns of prompts: which there are, whose they are, and their numbered versions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self, get_args
from uuid import UUID

from app.errors import NotFoundError

PromptName = Literal["rewrite", "answer"]
PROMPT_NAMES: tuple[PromptName, ...] = get_args(PromptName)


class PromptVersionNotFound(NotFoundError):
    """The prompt has no version of that number."""

    code = "prompt_version_not_found"


@dataclass(frozen=True, slots=True)
class PromptOwner:
    """Whose prompts they are: a knowledge base's, or those of an agent by the id that its platform gives it."""

    kb_id: UUID | None = None
    agent_id: str | None = None


@dataclass(frozen=True, slots=True)
class PromptVersionInfo:
    """A text with its number; the same text has the same number again. ``key_id`` is the key that brought it."""

    id: UUID
    name: PromptName
    number: int
    text: str
    created_at: datetime
    key_id: UUID | None
    in_use: bool


@dataclass(frozen=True, slots=True)
class ActivePrompt:
    """A prompt as a search is told of it: ``owner`` is the knowledge base's name or the agent's id."""

    text: str
    version: int
    owner: str


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """The prompts in use, as they stand among the settings of their owner, so that a search need not look them up."""

    rewrite_prompt: str | None = None
    rewrite_prompt_version: int | None = None
    answer_prompt: str | None = None
    answer_prompt_version: int | None = None

    @classmethod
    def from_stored(cls, stored_values: Mapping[str, Any]) -> Self:
        """As they stand in the database, where a newer version may know more of them."""
        field_names = cls.__dataclass_fields__
        return cls(**{name: value for name, value in stored_values.items() if name in field_names})

    def get_active_prompt(self, name: PromptName, *, owner: str) -> ActivePrompt | None:
        """The one in use, if there is one; one of before there were versions was given the number 1."""
        text, version = getattr(self, f"{name}_prompt"), getattr(self, f"{name}_prompt_version")
        return None if text is None else ActivePrompt(text, version or 1, owner)

    def get_active_prompts(self, *, owner: str) -> dict[PromptName, ActivePrompt]:
        """Those in use."""
        return {
            name: prompt for name in PROMPT_NAMES if (prompt := self.get_active_prompt(name, owner=owner)) is not None
        }

    def get_version_numbers(self) -> dict[PromptName, int | None]:
        """The numbers of those in use."""
        prompts = {name: self.get_active_prompt(name, owner="") for name in PROMPT_NAMES}
        return {name: None if prompt is None else prompt.version for name, prompt in prompts.items()}


def pin_version(settings: Mapping[str, Any], version: PromptVersionInfo) -> dict[str, Any]:
    """The settings with this version in use."""
    return {**settings, f"{version.name}_prompt": version.text, f"{version.name}_prompt_version": version.number}
