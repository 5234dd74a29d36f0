"""Every combination of operation, place, kind of id, key and role that asks for what is another's.

Each is sent twice: with the other's id, and with an id of nothing that was treated in the same way. What an attacker
makes of its own meanwhile it makes twice, so the two stay comparable; no two attackers share anything.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.db.models.base import SYSTEM_TENANT
from app.ids import decode_id, encode_id
from harness.running_service import Service, Tenant
from proofs.isolation.cases import EndpointCase
from proofs.isolation.tenants import ALL_FIELDS, Attacker, Ids, create_objects, get_operator_tenant, invent_ids

# Not the word of the other tests: what the operator has is shared with their tenants.
SECRET = "Rhamphorhynchus"
ROLES = ("admin", "writer", "reader")
# What stands in the place of a thing of its own kind, where the kind is to be another one.
SUBSTITUTE_FIELDS = {
    "kb": "document", "document": "node", "node": "chunk", "chunk": "document", "api_key": "deletion",
    "deletion": "api_key", "tenant": "kb", "kb_name": "external_id", "taken": "document", "external_id": "user_id",
    "user_id": "chat_id", "chat_id": "agent_id", "agent_id": "user_id", "promoted_user": "chat_id",
    "promoted_chat": "user_id", "file": "document", "vector_store_file": "chunk", "batch": "file",
}  # fmt: skip
# A number that all pictures of these tests have, and the words and numbers of prompts: there are no others to ask for.
FIXED_FIELDS = {"n", "prompt", "number"}
CHAT_FIELDS = {"chat_id", "promoted_chat"}


class IdKind(NamedTuple):
    """Whose thing it is, and how its id is written."""

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
        ("another's", "first"),
        ("another's other", "second"),
        ("a third one's", "third"),
        ("the operator's", "operator"),
        ("what is gone", "gone"),
    )
)
ID_KINDS = (
    *PLAIN_KINDS,
    IdKind("of another kind", "first", lambda field, ids: ids[SUBSTITUTE_FIELDS.get(field, field)]),
    IdKind("in capitals", "first", lambda field, ids: ids[field].upper()),
    IdKind("as a bare UUID", "first", _to_bare_uuid),
    IdKind("cut short", "first", lambda field, ids: ids[field][:-1]),
    IdKind("with a space", "first", lambda field, ids: ids[field] + " "),
    IdKind("with more behind", "first", lambda field, ids: ids[field] + "0"),
    IdKind("with another before", "first", lambda field, ids: f"x,{ids[field]}"),
)
IdsByForm = Mapping[str, Ids]


class Trial(NamedTuple):
    """One combination for one attacker; ``form`` says how a knowledge base in its place is named."""

    case: EndpointCase
    fields: tuple[str, ...]
    kind: IdKind
    form: str

    def build_ids(self, mine: Ids, theirs: Ids) -> Ids:
        """What is sent: one's own, but for the place."""
        changed = {name: self.kind.format_id(name, theirs) for name in self.fields if name not in FIXED_FIELDS}
        return {**mine, **{name: theirs[name] for name in FIXED_FIELDS & set(self.fields)}, **changed}

    def __str__(self) -> str:
        return f"{self.case}, {' and '.join(self.fields)} {self.kind.name}, by {self.form}"


@dataclass(frozen=True)
class Grid:
    """Whose things are asked for, by owner, and who asks."""

    owned_ids: Mapping[str, IdsByForm]
    owners: Mapping[str, Tenant]
    attackers: Sequence[Attacker]


def iter_field_groups(case: EndpointCase) -> Iterator[tuple[str, ...]]:
    """All ids of a case together, and each by itself among one's own."""
    if case.fields:
        yield case.fields
    if len(case.fields) > 1:
        yield from ((name,) for name in case.fields if name not in FIXED_FIELDS)


def generate_trials(
    cases: Iterable[EndpointCase], things: Mapping[str, IdsByForm], attacker: Attacker
) -> Iterator[Trial]:
    """All that this attacker tries."""
    is_operator = attacker.name == OPERATOR_NAME
    for case in cases:
        for place in iter_field_groups(case):
            if is_operator and (case.is_operator_only or "tenant" in place):
                continue  # tenants are what it may ask for
            for kind in ID_KINDS:
                if is_operator and kind.owner == "operator":
                    continue  # its own
                for form in ("id", "name") if "kb" in place else ("id",):
                    trial = Trial(case, place, kind, form)
                    if kind in PLAIN_KINDS or _is_id_changed(trial, things[kind.owner][form]):
                        yield trial


def may_learn_existence(trial: Trial, attacker: Attacker) -> bool:
    """Whether the key may learn of something that it is there: it is of the same tenant.

    Chats are named by callers: who may not take over a name that is taken learns that it is. What an agent is bound to
    holds for every key: one that may see none of it finds nothing.
    """
    if not attacker.name.startswith("A's"):
        return False
    if trial.case.is_agent_bound:
        return "agent_id" in trial.fields
    return attacker.name.endswith(" of both") and not trial.case.is_read_only and bool(CHAT_FIELDS & set(trial.fields))


def _is_id_changed(trial: Trial, theirs: Ids) -> bool:
    """Whether this kind writes the id in another way at all: a word has no bare UUID."""
    return any(trial.kind.format_id(name, theirs) != theirs[name] for name in trial.fields if name not in FIXED_FIELDS)


OPERATOR_NAME = "the operator"
SYSTEM_ID = encode_id("ten", SYSTEM_TENANT)


def create_grid(service: Service, *, roles: Sequence[str] = ROLES) -> Grid:
    """Owners with everything they can have, and a tenant of its own for each key that asks."""
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
            (" of what is gone", ("gone",)),
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
    """What no reply to it may hold."""
    owners = (
        ("first", "second", "third") if attacker.name == OPERATOR_NAME else ("first", "second", "third", "operator")
    )
    return [f"{SECRET} flies with the {name}" for name in owners]


def _create_attacker(name: str, tenant: Tenant, role: str, narrowed: Sequence[str]) -> Attacker:
    ids = to_forms(create_everything(tenant, "A text of whoever asks."))
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
    """Everything that a tenant can have; whom a document is promoted to is there too. The operator has no users."""
    fields = set(ALL_FIELDS) - ({"user_id", "chat_id", "sql_view"} if tenant.id == SYSTEM_ID else set())
    ids = create_objects(tenant, text, fields=fields, form="id")
    return {**ids, "taken": ids["kb_name"], "promoted_user": ids["user_id"], "promoted_chat": ids["chat_id"]}


def to_forms(ids: Ids) -> IdsByForm:
    """The same with the knowledge base's id, and with its name."""
    return {"id": ids, "name": {**ids, "kb": ids["kb_name"]}}


def invent_forms() -> IdsByForm:
    """Ids of nothing, that belong together as those of a thing do."""
    ids = invent_ids("id")
    return to_forms({**ids, "taken": ids["kb_name"], "promoted_user": ids["user_id"], "promoted_chat": ids["chat_id"]})


def _create_deleted(tenant: Tenant) -> dict[str, str]:
    ids = create_everything(tenant, "What is gone.")
    tenant.admin.delete(f"/v1/api-keys/{ids['api_key']}").raise_for_status()
    tenant.admin.delete(f"/v1/knowledge-bases/{ids['kb']}").raise_for_status()
    return ids


def snapshot_owners(grid: Grid) -> dict[str, object]:
    """What the owners have, as they see it; but for the index, which the service itself looks after."""
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
