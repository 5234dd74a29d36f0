"""Types of custom prompts: names, owners and versions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self, get_args
from uuid import UUID

from app.errors import NotFoundError

PromptName = Literal["rewrite", "answer"]
PROMPT_NAMES: tuple[PromptName, ...] = get_args(PromptName)


class PromptVersionNotFound(NotFoundError):
    """The prompt has no version with this number; list its versions."""

    code = "prompt_version_not_found"


@dataclass(frozen=True, slots=True)
class PromptOwner:
    """Owner of prompts: a knowledge base, or an agent.

    Attributes:
        kb_id: Id of the knowledge base; None for an agent.
        agent_id: Id of the agent on its platform; None for a knowledge base.
    """

    kb_id: UUID | None = None
    agent_id: str | None = None


@dataclass(frozen=True, slots=True)
class PromptVersionInfo:
    """Version of a prompt.

    Attributes:
        id: Id of the version.
        name: Name of the prompt.
        number: Number from 1; each text of a prompt has one number.
        text: Text of the prompt.
        created_at: Time of creation.
        key_id: API key that created the version.
        in_use: Whether searches and answers use the version.
    """

    id: UUID
    name: PromptName
    number: int
    text: str
    created_at: datetime
    key_id: UUID | None
    in_use: bool


@dataclass(frozen=True, slots=True)
class ActivePrompt:
    """Prompt that a search or an answer uses.

    Attributes:
        text: Text of the prompt.
        version: Version number.
        owner: Name of the knowledge base, or id of the agent.
    """

    text: str
    version: int
    owner: str


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """Prompts in use. They are copied into the settings of their owner, so that a search needs no further query."""

    rewrite_prompt: str | None = None
    rewrite_prompt_version: int | None = None
    answer_prompt: str | None = None
    answer_prompt_version: int | None = None

    @classmethod
    def from_stored(cls, stored_values: Mapping[str, Any]) -> Self:
        """Create the settings from stored values. Unknown fields, which a newer release may store, are ignored."""
        field_names = cls.__dataclass_fields__
        return cls(**{name: value for name, value in stored_values.items() if name in field_names})

    def get_active_prompt(self, name: PromptName, *, owner: str) -> ActivePrompt | None:
        """Return the prompt in use, or None. A prompt without a stored version number is version 1."""
        text, version = getattr(self, f"{name}_prompt"), getattr(self, f"{name}_prompt_version")
        return None if text is None else ActivePrompt(text, version or 1, owner)

    def get_active_prompts(self, *, owner: str) -> dict[PromptName, ActivePrompt]:
        """Return the prompts in use, by their name."""
        return {
            name: prompt for name in PROMPT_NAMES if (prompt := self.get_active_prompt(name, owner=owner)) is not None
        }

    def get_version_numbers(self) -> dict[PromptName, int | None]:
        """Return the version numbers of the prompts in use, by name; None for a prompt without a text."""
        prompts = {name: self.get_active_prompt(name, owner="") for name in PROMPT_NAMES}
        return {name: None if prompt is None else prompt.version for name, prompt in prompts.items()}


def pin_version(settings: Mapping[str, Any], version: PromptVersionInfo) -> dict[str, Any]:
    """Return settings in which the given version is in use."""
    return {**settings, f"{version.name}_prompt": version.text, f"{version.name}_prompt_version": version.number}
