"""Combinations of operation, id field, kind of id, API key and role that request objects of another tenant.

Each combination is sent twice: with a foreign id, and with an unknown id in the same form. Both requests change the
attacker's objects in the same way, so the replies stay comparable. No two attackers share objects.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.db.models.base import SYSTEM_TENANT
from app.ids import decode_id, encode_id
from harness.running_service import Service, Tenant
from proofs.isolation.cases import EndpointCase
from proofs.isolation.tenants import ALL_FIELDS, Attacker, Ids, create_objects, get_operator_tenant, invent_ids

# Differs from the word of the other tests, because all tenants can read the operator's knowledge bases.
SECRET = "Rhamphorhynchus"
ROLES = ("admin", "writer", "reader")
# Object of another kind whose id replaces an id in the kind of id "of another kind".
SUBSTITUTE_FIELDS = {
    "kb": "document", "document": "node", "node": "chunk", "chunk": "document", "api_key": "deletion",
    "deletion": "api_key", "tenant": "kb", "kb_name": "external_id", "taken": "document", "external_id": "user_id",
    "user_id": "chat_id", "chat_id": "agent_id", "agent_id": "user_id", "promoted_user": "chat_id",
    "promoted_chat": "user_id", "file": "document", "vector_store_file": "chunk", "batch": "file",
    "job": "deletion",
}  # fmt: skip
# Fields with only one possible value: the numbers of all test images and pages, and the names and numbers of prompts.
FIXED_FIELDS = {"n", "page", "prompt", "number"}
CHAT_FIELDS = {"chat_id", "promoted_chat"}


class IdKind(NamedTuple):
    """Owner of an object, and the form in which its id is sent."""

    name: str
    owner: str
    format_id: Callable[[str, Ids], str]


def _get_id(field: str, ids: Ids) -> str:
    return ids[field]


def _to_bare_uuid(field: str, ids: Ids) -> str:
    value = ids[field]
    result = decode_id(value.partition("_")[0], value)
    return value if result is None else str(result)


PLAIN_KINDS = tuple(
    IdKind(name, owner, _get_id)
    for name, owner in (
        ("of another tenant", "first"),
        ("of another tenant, second object", "second"),
        ("of a third tenant", "third"),
        ("of the operator", "operator"),
        ("of a deleted object", "gone"),
    )
)
ID_KINDS = (
    *PLAIN_KINDS,
    IdKind("of another kind", "first", lambda field, ids: ids[SUBSTITUTE_FIELDS.get(field, field)]),
    IdKind("in capitals", "first", lambda field, ids: ids[field].upper()),
    IdKind("as a bare UUID", "first", _to_bare_uuid),
    IdKind("truncated", "first", lambda field, ids: ids[field][:-1]),
    IdKind("with a space", "first", lambda field, ids: ids[field] + " "),
    IdKind("with a suffix", "first", lambda field, ids: ids[field] + "0"),
    IdKind("with a prefix", "first", lambda field, ids: f"x,{ids[field]}"),
)
IdsByForm = Mapping[str, Ids]


class Trial(NamedTuple):
    """One combination for one attacker. ``form`` is ``id`` or ``name``: the reference to a knowledge base."""

    case: EndpointCase
    fields: tuple[str, ...]
    kind: IdKind
    form: str

    def build_ids(self, mine: Ids, theirs: Ids) -> Ids:
        """Return the ids of a request: the attacker's ids, with foreign ids in the tested fields."""
        changed = {name: self.kind.format_id(name, theirs) for name in self.fields if name not in FIXED_FIELDS}
        return {**mine, **{name: theirs[name] for name in FIXED_FIELDS & set(self.fields)}, **changed}

    def __str__(self) -> str:
        return f"{self.case}, {' and '.join(self.fields)} {self.kind.name}, by {self.form}"


@dataclass(frozen=True)
class Grid:
    """Owners with the ids of their objects, and the attackers."""

    owned_ids: Mapping[str, IdsByForm]
    owners: Mapping[str, Tenant]
    attackers: Sequence[Attacker]


def iter_field_groups(case: EndpointCase) -> Iterator[tuple[str, ...]]:
    """Yield all id fields of a case together, then each field alone."""
    if case.fields:
        yield case.fields
    if len(case.fields) > 1:
        yield from ((name,) for name in case.fields if name not in FIXED_FIELDS)


def generate_trials(
    cases: Iterable[EndpointCase], things: Mapping[str, IdsByForm], attacker: Attacker
) -> Iterator[Trial]:
    """Yield all combinations of one attacker."""
    is_operator = attacker.name == OPERATOR_NAME
    for case in cases:
        for place in iter_field_groups(case):
            if is_operator and (case.spans_tenants_for_operator or "tenant" in place):
                continue  # not foreign to the operator
            for kind in ID_KINDS:
                if is_operator and kind.owner == "operator":
                    continue  # not foreign to the operator
                for form in ("id", "name") if "kb" in place else ("id",):
                    trial = Trial(case, place, kind, form)
                    if kind in PLAIN_KINDS or _is_id_changed(trial, things[kind.owner][form]):
                        yield trial


def may_learn_existence(trial: Trial, attacker: Attacker) -> bool:
    """Return whether a key may learn that a foreign object exists. Such a key belongs to the owner's tenant.

    Callers choose chat ids, so a refused chat id shows that the chat exists. An agent's settings apply to every key of
    the tenant, and a key that may read none of the agent's knowledge bases gets no results.
    """
    if not attacker.name.startswith("A's"):
        return False
    if trial.case.is_agent_bound:
        return "agent_id" in trial.fields
    return attacker.name.endswith(" of both") and not trial.case.is_read_only and bool(CHAT_FIELDS & set(trial.fields))


def _is_id_changed(trial: Trial, theirs: Ids) -> bool:
    """Return whether a kind of id changes an id. For example, a name has no form as a bare UUID."""
    return any(trial.kind.format_id(name, theirs) != theirs[name] for name in trial.fields if name not in FIXED_FIELDS)


OPERATOR_NAME = "the operator"
SYSTEM_ID = encode_id("ten", SYSTEM_TENANT)


def create_grid(service: Service, *, roles: Sequence[str] = ROLES) -> Grid:
    """Create the owners with an object of every kind, and the attackers.

    Each key of a foreign tenant belongs to a separate tenant. Other attackers are restricted keys of the owner's tenant
    and the operator.
    """
    a = service.create_tenant("a")
    owners = {
        "first": a,
        "second": a,
        "third": service.create_tenant("third"),
        "operator": get_operator_tenant(service),
    }
    things = {
        name: to_forms(create_everything(owner, f"The {SECRET} flies with the {name}."))
        for name, owner in owners.items()
    }
    things["gone"] = to_forms(_create_deleted(a))
    attackers = [
        _create_attacker(f"B's {role}{reported}", service.create_tenant("b"), role, narrowed)
        for role in roles
        for reported, narrowed in (
            ("", ()),
            (" of a kb", ("kb",)),
            (" of a user", ("user",)),
            (" of both", ("kb", "user")),
            (" of a deleted kb", ("gone",)),
        )
    ]
    attackers += [
        _create_attacker(f"A's {role}{reported}", a, role, narrowed)
        for role in roles
        for reported, narrowed in ((" of a kb", ("kb",)), (" of both", ("kb", "user")))
    ]
    attackers.append(
        Attacker(
            OPERATOR_NAME, service.operator, to_forms(create_everything(owners["operator"], "A text of the operator."))
        )
    )
    return Grid(things, owners, attackers)


def list_hidden_secrets(attacker: Attacker) -> list[str]:
    """Return the texts that no reply to an attacker may contain."""
    owners = (
        ("first", "second", "third") if attacker.name == OPERATOR_NAME else ("first", "second", "third", "operator")
    )
    return [f"{SECRET} flies with the {name}" for name in owners]


def _create_attacker(name: str, tenant: Tenant, role: str, narrowed: Sequence[str]) -> Attacker:
    ids = to_forms(create_everything(tenant, "A text of the attacker."))
    limits: dict[str, object] = {}
    if "kb" in narrowed:
        limits["knowledge_bases"] = [ids["id"]["kb"]]
    if "user" in narrowed:
        limits["user_id"] = ids["id"]["user_id"]
    if "gone" in narrowed:
        tenant.admin.post("/v1/knowledge-bases", json={"name": "brief"}).raise_for_status()
        limits["knowledge_bases"] = ["brief"]
    client = tenant.create_client(role, **limits)
    if "gone" in narrowed:
        tenant.admin.delete("/v1/knowledge-bases/brief").raise_for_status()
    return Attacker(name, client, ids)


def create_everything(tenant: Tenant, text: str) -> dict[str, str]:
    """Create an object of every kind for a tenant and return the ids. The operator has no users, chats or SQL views."""
    fields = set(ALL_FIELDS) - ({"user_id", "chat_id", "sql_view"} if tenant.id == SYSTEM_ID else set())
    ids = create_objects(tenant, text, fields=fields, form="id")
    return {**ids, "taken": ids["kb_name"], "promoted_user": ids["user_id"], "promoted_chat": ids["chat_id"]}


def to_forms(ids: Ids) -> IdsByForm:
    """Return the ids in both forms: with the id and with the name of the knowledge base."""
    return {"id": ids, "name": {**ids, "kb": ids["kb_name"]}}


def invent_forms() -> IdsByForm:
    """Return well-formed ids of objects that do not exist, in both forms."""
    ids = invent_ids("id")
    return to_forms({**ids, "taken": ids["kb_name"], "promoted_user": ids["user_id"], "promoted_chat": ids["chat_id"]})


def _create_deleted(tenant: Tenant) -> dict[str, str]:
    ids = create_everything(tenant, "A deleted text.")
    tenant.admin.delete(f"/v1/api-keys/{ids['api_key']}").raise_for_status()
    tenant.admin.delete(f"/v1/knowledge-bases/{ids['kb']}").raise_for_status()
    return ids


def snapshot_owners(grid: Grid) -> dict[str, object]:
    """Read the objects of all owners, without the field ``index``, which maintenance changes."""
    visited: dict[str, object] = {}
    for name, owner in grid.owners.items():
        ids = grid.owned_ids[name]["id"]
        kb = f"/v1/knowledge-bases/{ids['kb']}"
        paths = [kb, f"{kb}/documents", f"{kb}/documents/{ids['document']}/chunks", f"/v1/deletions/{ids['deletion']}"]
        paths.append(f"/v1/agents/{ids['agent_id']}")
        if owner.id != SYSTEM_ID:
            paths.append(f"{kb}/documents?user_id={ids['user_id']}")
        for path in paths:
            reply = owner.admin.get(path).raise_for_status().json()
            visited[f"{name} {path}"] = {field: value for field, value in reply.items() if field != "index"}
    return visited
