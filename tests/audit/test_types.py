"""Who acts, by the credential; and what each action is done to."""

import pytest

from app.access import Origin, Principal, Role
from app.api.v1.audit_events import PREFIXES
from app.audit.types import Action, Actor, ActorKind
from app.ids import new_id

TENANT, KEY = new_id(), new_id()
ORIGIN = Origin("req_1", "203.0.113.9")


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
def test_who_acts(principal: Principal, actor: Actor) -> None:
    assert Actor.of(principal) == actor


@pytest.mark.parametrize("action", Action)
def test_every_action_is_done_to_something_that_has_ids(action: Action) -> None:
    assert action.object_type in PREFIXES
    assert action.value == f"{action.object_type}.{action.value.partition('.')[2]}"
