"""Audit types: the actor of each credential, and the object of each action."""

import pytest

from app.api.v1.admin.audit_events import OBJECT_ID_PREFIXES
from app.audit.types import Actor, ActorKind, AuditAction
from app.ids import generate_id
from app.principal import Principal, RequestOrigin, Role

TENANT, KEY = generate_id(), generate_id()
ORIGIN = RequestOrigin("req_1", "203.0.113.9")


@pytest.mark.parametrize(
    ("principal", "actor"),
    [
        (
            Principal(TENANT, "a tenant", Role.WRITER, KEY, "a key", origin=ORIGIN),
            Actor(ActorKind.KEY, KEY, "a key", ORIGIN),
        ),
        (
            Principal(TENANT, "a tenant", Role.ADMIN, KEY, "jane", subject="jane", origin=ORIGIN),
            Actor(ActorKind.TOKEN, KEY, "jane", ORIGIN),
        ),
        (
            Principal(TENANT, "system", Role.OPERATOR, origin=ORIGIN),
            Actor(ActorKind.OPERATOR, None, "operator", ORIGIN),
        ),
        (Principal(TENANT, "a tenant", Role.READER, KEY, "a key"), Actor(ActorKind.KEY, KEY, "a key")),
    ],
    ids=["key", "token", "operator", "without an origin"],
)
def test_actor_from_principal_names_credential(principal: Principal, actor: Actor) -> None:
    assert Actor.from_principal(principal) == actor


@pytest.mark.parametrize("action", AuditAction)
def test_every_audit_action_has_object_type_with_ids(action: AuditAction) -> None:
    assert action.object_type in OBJECT_ID_PREFIXES
    assert action.value == f"{action.object_type}.{action.value.partition('.')[2]}"
