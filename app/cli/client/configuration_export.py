"""Export of a tenant's settings to a configuration file of ``carrel apply``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
import yaml
from carrel_client import Client

# Fields of responses that no file contains.
_KNOWLEDGE_BASE_FIELDS = (
    "kind", "source", "title", "description", "language", "embedding", "chunking", "retrieval", "routing", "graph",
    "metadata_filter",
)  # fmt: skip
_DOCUMENT_FIELDS = frozenset({"kind", "embedding", "chunking", "graph", "metadata_filter"})
_AGENT_RESPONSE_FIELDS = frozenset({"id", "agent_id", "created_at", "updated_at"})


def export_configuration(client: Client, target: Path | None) -> None:
    """Write the knowledge bases and agents of a tenant as a configuration file.

    Args:
        client: Client with an admin's API key.
        target: Path of the file; None for standard output.
    """
    text = yaml.safe_dump(read_configuration(client), sort_keys=False, allow_unicode=True, width=100)
    if target is None:
        typer.echo(text, nl=False)
    else:
        target.write_text(text, "utf-8")


def read_configuration(client: Client) -> dict[str, Any]:
    """Return the knowledge bases and agents of a tenant in the form of a configuration file.

    Args:
        client: Client with an admin's API key.
    """
    knowledge_bases = sorted(client.knowledge_bases.list(), key=lambda item: item["name"])
    names = {item["id"]: item["name"] for item in knowledge_bases}
    agents = sorted(client.agents.list(), key=lambda item: str(item["agent_id"]))
    return {
        "knowledge_bases": {item["name"]: _to_knowledge_base_fields(item) for item in knowledge_bases},
        "agents": {item["agent_id"]: _to_agent_fields(item, names) for item in agents},
    }


def _to_knowledge_base_fields(item: Mapping[str, Any]) -> dict[str, Any]:
    left_out = {"kind", "source"} if item["kind"] == "documents" else _DOCUMENT_FIELDS - {"kind"}
    fields = {name: item[name] for name in _KNOWLEDGE_BASE_FIELDS if name in item and name not in left_out}
    if fields.get("title") == item["name"]:
        del fields["title"]
    pending = item.get("pending_metadata_filter")
    if pending is not None:
        fields["metadata_filter"] = pending
    return {name: value for name, value in fields.items() if value not in (None, {})}


def _to_agent_fields(item: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    references = [names.get(reference, reference) for reference in item["knowledge_bases"]]
    fields = {name: value for name, value in item.items() if name not in _AGENT_RESPONSE_FIELDS}
    fields = {name: value for name, value in fields.items() if value not in (None, {})}
    return {**fields, "knowledge_bases": references}
