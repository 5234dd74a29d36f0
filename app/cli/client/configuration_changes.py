"""Changes that turn the knowledge bases and agents of a tenant into those of a configuration file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from carrel_client import Client, NotFound

from app.cli.client.configuration_file import Configuration, InvalidConfiguration

ResourceKind = Literal["knowledge_base", "agent"]
ChangeAction = Literal["create", "update"]
REINDEX_FIELDS = frozenset({"embedding", "chunking", "language"})
# Objects that are compared and replaced as a whole: an entry that the file leaves out is removed.
_WHOLE_OBJECTS = frozenset({"metadata_filter", "filter", "strategy_options"})
_MERGED_OBJECTS = ("retrieval", "routing", "graph")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """Changed field of a resource: its path, and both values."""

    path: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """Creation or update of a knowledge base or an agent.

    Attributes:
        kind: Kind of the resource.
        name: Name of the knowledge base, or id of the agent.
        action: ``create`` or ``update``.
        fields: Changed fields; all fields of the file for a creation.
        body: Body of the creation or of the update; empty if only a reindex is needed.
        reindex: Body of the reindex; empty if none is needed.
    """

    kind: ResourceKind
    name: str
    action: ChangeAction
    fields: Sequence[FieldChange]
    body: Mapping[str, Any] = field(default_factory=dict)
    reindex: Mapping[str, Any] = field(default_factory=dict)


def plan_changes(client: Client, configuration: Configuration) -> list[ResourceChange]:
    """Compare a configuration with the service, without changing anything.

    Fields that the file leaves out keep their values. Resources that the file leaves out stay.

    Args:
        client: Client with an admin's API key.
        configuration: The wanted knowledge bases and agents.

    Returns:
        The changes in the order in which they must be made; empty if the service agrees with the file.

    Raises:
        InvalidConfiguration: An agent names an unknown knowledge base, or the kind of a knowledge base would change.
    """
    stored = {item["name"]: item for item in client.knowledge_bases.list()}
    changes: list[ResourceChange] = []
    for name, fields in configuration.knowledge_bases.items():
        change = _plan_knowledge_base(name, fields, stored.get(name))
        changes += [] if change is None else [change]
    names = {item["id"]: name for name, item in stored.items()}
    existing_names = {*stored, *configuration.knowledge_bases}
    for agent_id, fields in configuration.agents.items():
        change = _plan_agent(client, agent_id, fields, names, existing_names)
        changes += [] if change is None else [change]
    return changes


def apply_change(client: Client, change: ResourceChange) -> None:
    """Make one change through the API.

    Raises:
        CarrelError: The service refused the change, or did not answer.
    """
    if change.kind == "agent":
        body = {"knowledge_bases": [], **change.body}
        if change.action == "create":
            client.agents.bind(change.name, **body)
        else:
            client.agents.update(change.name, **change.body)
        return
    if change.action == "create":
        client.knowledge_bases.create(change.name, **change.body)
        return
    if change.body:
        client.knowledge_bases.update(change.name, **change.body)
    if change.reindex:
        client.knowledge_bases.reindex(change.name, **change.reindex)


def compare_fields(wanted: Mapping[str, Any], current: Mapping[str, Any], path: str = "") -> Iterator[FieldChange]:
    """Yield the fields of ``wanted`` that have another value in ``current``, an object of a response.

    A field that is missing in a response equals null and an empty object.
    """
    for name, new in wanted.items():
        old, place = current.get(name), f"{path}{name}"
        if name == "transformers" and isinstance(new, list) and isinstance(old, list):
            is_equal = _are_transformers_equal(new, old)
        elif isinstance(new, dict) and isinstance(old, dict) and name not in _WHOLE_OBJECTS:
            yield from compare_fields(new, old, f"{place}.")
            continue
        else:
            is_equal = _strip_texts(new) == _strip_texts(old) or (new in (None, {}) and old in (None, {}))
        if not is_equal:
            yield FieldChange(place, old, new)


def _plan_knowledge_base(
    name: str, fields: Mapping[str, Any], stored: Mapping[str, Any] | None
) -> ResourceChange | None:
    if stored is None:
        return ResourceChange("knowledge_base", name, "create", _list_new_fields(fields), dict(fields))
    if fields.get("kind", "documents") != stored["kind"]:
        raise InvalidConfiguration(
            f"knowledge_bases.{name}.kind: the knowledge base has the kind {stored['kind']}, which cannot change."
        )
    current = _to_current_state(name, fields, stored)
    changes = list(compare_fields(fields, current))
    if not changes:
        return None
    changed = {change.path.partition(".")[0] for change in changes}
    body: dict[str, Any] = {key: fields[key] for key in fields if key in changed - REINDEX_FIELDS}
    for key in _MERGED_OBJECTS:
        if key in body and isinstance(body[key], dict):
            body[key] = _merge_settings(body[key], stored.get(key) or {})
    reindex: dict[str, Any] = {key: fields[key] for key in fields if key in changed & REINDEX_FIELDS}
    if "chunking" in reindex:
        reindex["chunking"] = _merge_settings(fields["chunking"], current["chunking"])
    return ResourceChange("knowledge_base", name, "update", changes, body, reindex)


def _to_current_state(name: str, fields: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a knowledge base that a reindex and a metadata backfill, if they run, will reach."""
    current = dict(stored)
    if stored.get("reindex"):
        current |= {key: stored["reindex"][key] for key in REINDEX_FIELDS}
    if stored.get("pending_metadata_filter") is not None:
        current["metadata_filter"] = stored["pending_metadata_filter"]
    if fields.get("title", "") is None and stored["title"] == name:
        current["title"] = None
    return current


def _merge_settings(wanted: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of ``wanted`` over those of the service. Options of a replaced strategy are left out."""
    remaining = {name: value for name, value in current.items() if value is not None}
    if wanted.get("strategy", current.get("strategy")) != current.get("strategy"):
        remaining = {name: value for name, value in remaining.items() if name not in ("strategy_options", "options")}
    return {**remaining, **wanted}


def _plan_agent(
    client: Client, agent_id: str, fields: Mapping[str, Any], names: Mapping[str, str], existing_names: set[str]
) -> ResourceChange | None:
    references = [names.get(reference, reference) for reference in fields["knowledge_bases"]]
    if unknown := [reference for reference in references if reference not in existing_names]:
        raise InvalidConfiguration(f"agents.{agent_id}.knowledge_bases: unknown: {', '.join(unknown)}.")
    wanted = {**fields, "knowledge_bases": references}
    try:
        stored = client.agents.get(agent_id)
    except NotFound:
        return ResourceChange("agent", agent_id, "create", _list_new_fields(wanted), wanted)
    current = {**stored, "knowledge_bases": [names.get(item, item) for item in stored["knowledge_bases"]]}
    changes = list(compare_fields(wanted, current))
    if not changes:
        return None
    changed = {change.path.partition(".")[0] for change in changes}
    if changed & {"strategy", "strategy_options"}:  # the API changes both together
        changed |= {"strategy", "strategy_options"}
    body = {name: value for name, value in wanted.items() if name in changed}
    if "strategy_options" in body and "strategy" not in body:
        body["strategy"] = stored["strategy"]
    return ResourceChange("agent", agent_id, "update", changes, body)


def _list_new_fields(fields: Mapping[str, Any]) -> list[FieldChange]:
    return [FieldChange(name, None, value) for name, value in fields.items()]


def _strip_texts(value: Any) -> Any:
    """Return a text or a list of texts without white space at the ends, which the service removes from prompts."""
    if isinstance(value, list):
        return [_strip_texts(item) for item in value]
    return value.strip() if isinstance(value, str) else value


def _are_transformers_equal(wanted: Sequence[Any], stored: Sequence[Mapping[str, Any]]) -> bool:
    """Compare the transformers of a file with stored ones, which have the values of all options."""
    if len(wanted) != len(stored):
        return False
    for item, other in zip(wanted, stored, strict=True):
        name, options = (item, {}) if isinstance(item, str) else (item["name"], item.get("options", {}))
        if name != other["name"] or any(other["options"].get(key) != value for key, value in options.items()):
            return False
    return True
