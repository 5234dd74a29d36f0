"""Configuration files of ``carrel apply``: knowledge bases and agents of a tenant in YAML."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from yaml.constructor import ConstructorError

from app.api.v1.agents.agents import AgentBindingRequest
from app.api.v1.knowledge_bases.knowledge_base_schemas import KnowledgeBaseCreate
from app.api.v1.knowledge_bases.retrieval_settings import RetrievalSettingsRequest
from app.api.v1.option_aliases import translate_aliases
from app.errors import InvalidInputError

SECTIONS = ("knowledge_bases", "agents")
MAX_FILE_BYTES = 10_000_000


class InvalidConfiguration(InvalidInputError):
    """The configuration file is invalid."""

    code = "invalid_configuration"


@dataclass(frozen=True, slots=True)
class Configuration:
    """Fields of knowledge bases by name, and of agents by id, as the file writes them."""

    knowledge_bases: Mapping[str, Mapping[str, Any]]
    agents: Mapping[str, Mapping[str, Any]]


class _StrictLoader(yaml.SafeLoader):
    """Loader that rejects a key that occurs twice in a mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of a node. Raises ConstructorError for a repeated key."""
        self.flatten_mapping(node)
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise ConstructorError(None, None, f"the key {key!r} is no text", key_node.start_mark)
            if key in mapping:
                raise ConstructorError(None, None, f"the key {key!r} occurs twice", key_node.start_mark)
            mapping[key] = self.construct_object(value_node, deep=deep)
        return mapping


def load_configuration(path: Path) -> Configuration:
    """Read and check a configuration file.

    Args:
        path: Path of the YAML file.

    Raises:
        InvalidConfiguration: The file is no YAML, or a field is unknown or invalid. The message lists all faults.
        OSError: The file cannot be read.
    """
    if path.stat().st_size > MAX_FILE_BYTES:
        raise InvalidConfiguration(f"{path} is larger than {MAX_FILE_BYTES:,} bytes.")
    try:
        content = yaml.load(path.read_text("utf-8"), _StrictLoader)  # noqa: S506  (a subclass of the safe loader)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as exc:  # PyYAML leaks the others
        raise InvalidConfiguration(f"{path} is no YAML: {exc}") from exc
    return parse_configuration(content)


def parse_configuration(content: Any) -> Configuration:
    """Check the content of a configuration file.

    Args:
        content: The parsed file: an object with the keys ``knowledge_bases`` and ``agents``, each optional.

    Raises:
        InvalidConfiguration: A field is unknown or invalid. The message lists all faults.
    """
    if not isinstance(content, dict) or not content:
        raise InvalidConfiguration(f"The file needs at least one of the keys {', '.join(SECTIONS)}.")
    if unknown := [str(key) for key in content if key not in SECTIONS]:
        raise InvalidConfiguration(f"Unknown keys: {', '.join(unknown)}. Use {' and '.join(SECTIONS)}.")
    sections: dict[str, dict[str, Any]] = {}
    for name in SECTIONS:
        section = content.get(name)
        if section is not None and not isinstance(section, dict):
            raise InvalidConfiguration(f"{name}: write an object, with a name and fields for each entry.")
        sections[name] = {key: {} if fields is None else fields for key, fields in (section or {}).items()}
    faults = [*_list_knowledge_base_faults(sections["knowledge_bases"]), *_list_agent_faults(sections["agents"])]
    if faults:
        raise InvalidConfiguration("\n".join(["The file has faults:", *faults]))
    try:
        json.dumps(sections, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidConfiguration(f"The file has a value that JSON cannot have: {exc}") from exc
    return Configuration(
        {name: _translate_knowledge_base(fields) for name, fields in sections["knowledge_bases"].items()},
        {agent_id: translate_aliases(fields, AgentBindingRequest) for agent_id, fields in sections["agents"].items()},
    )


def _translate_knowledge_base(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a knowledge base with Carrel's names in place of those of other systems."""
    if not isinstance(fields.get("retrieval"), dict):
        return dict(fields)
    return {**fields, "retrieval": translate_aliases(fields["retrieval"], RetrievalSettingsRequest)}


def _list_knowledge_base_faults(section: Mapping[str, Any]) -> Iterator[str]:
    for name, fields in section.items():
        yield from _list_faults(f"knowledge_bases.{name}", KnowledgeBaseCreate, fields, name=name)


def _list_agent_faults(section: Mapping[str, Any]) -> Iterator[str]:
    for agent_id, fields in section.items():
        yield from _list_faults(f"agents.{agent_id}", AgentBindingRequest, fields)


def _list_faults(path: str, model: type[BaseModel], fields: Any, **identity: str) -> Iterator[str]:
    """Yield the faults of the fields of an entry. ``identity`` has the fields that the file writes as the key."""
    if not isinstance(fields, dict):
        yield f"{path}: write an object of fields."
        return
    if repeated := identity.keys() & fields.keys():
        yield f"{path}: leave out {', '.join(sorted(repeated))}, because the key says it."
        return
    try:
        model.model_validate({**identity, **fields})
    except ValidationError as exc:
        for error in exc.errors(include_url=False, include_context=False, include_input=False):
            place = ".".join(str(part) for part in error["loc"])
            yield f"{path}{'.' if place else ''}{place}: {error['msg']}"
