"""The grid of ``make prove NAME=isolation``: its size, and a share of it against the tests' service."""

import random
from collections.abc import Iterator

import pytest

from harness.running_service import Service
from proofs.isolation.comparison import build_comparable_reply, send_case
from proofs.isolation.grid import (
    CHAT_FIELDS,
    ID_KINDS,
    OPERATOR_NAME,
    ROLES,
    Grid,
    Trial,
    create_grid,
    generate_trials,
    invent_forms,
    iter_field_groups,
    list_hidden_secrets,
    may_learn_existence,
    snapshot_owners,
)
from proofs.isolation.tenants import Attacker
from tests.isolation.test_http_isolation import CASES

OWNERS = ("first", "second", "third", "operator", "gone")
KEYS_OF_A_ROLE = 7
TRIED = 150


@pytest.fixture(scope="module")
def grid(service: Service) -> Grid:
    return create_grid(service, roles=("writer",))


def everything(attacker: str) -> Iterator[Trial]:
    things = {owner: invent_forms() for owner in OWNERS}
    return generate_trials(CASES, things, Attacker(attacker, None, invent_forms()))  # type: ignore[arg-type]  # unused


def test_grid_has_enough_combinations() -> None:
    one = list(everything("B's admin"))
    assert len(set(map(str, one))) == len(one)
    assert len(one) * KEYS_OF_A_ROLE * len(ROLES) >= 50_000


def test_grid_contains_every_operation_with_an_id() -> None:
    tried = {(str(trial.case), trial.fields) for trial in everything("B's admin")}
    assert tried == {(str(case), place) for case in CASES for place in iter_field_groups(case)}
    assert {trial.kind for trial in everything("B's admin")} == set(ID_KINDS)


def test_grid_excludes_objects_visible_to_operator() -> None:
    tried = list(everything(OPERATOR_NAME))
    assert not [
        trial
        for trial in tried
        if trial.case.spans_tenants_for_operator or "tenant" in trial.fields or trial.kind.owner == "operator"
    ]
    assert len(tried) > 1000


def test_grid_reveals_only_chats_and_bindings_inside_tenant() -> None:
    keys = ("A's writer of both", "A's writer of a kb", "B's writer of both", OPERATOR_NAME)
    attackers = {key: Attacker(key, None, {}) for key in keys}  # type: ignore[arg-type]
    told = [(key, trial) for key in keys for trial in everything(key) if may_learn_existence(trial, attackers[key])]
    bindings = [(key, trial) for key, trial in told if trial.case.is_agent_bound]
    chats = [(key, trial) for key, trial in told if not trial.case.is_agent_bound]
    assert {key for key, _ in bindings} == {"A's writer of both", "A's writer of a kb"}
    assert all("agent_id" in trial.fields for _, trial in bindings)
    assert {key for key, _ in chats} == {"A's writer of both"}
    assert all(CHAT_FIELDS & set(trial.fields) and not trial.case.is_read_only for _, trial in chats)


def test_grid_sample_reveals_nothing(grid: Grid) -> None:
    before = snapshot_owners(grid)
    chosen = random.Random(5)
    all_of_it = [
        (attacker, trial) for attacker in grid.attackers for trial in generate_trials(CASES, grid.owned_ids, attacker)
    ]
    nothing = {attacker.name: {owner: invent_forms() for owner in OWNERS} for attacker in grid.attackers}
    statuses = set()
    for attacker, trial in sorted(chosen.sample(all_of_it, TRIED), key=lambda one: not one[1].case.is_read_only):
        theirs, none = grid.owned_ids[trial.kind.owner], nothing[attacker.name][trial.kind.owner]
        sent = [trial.build_ids(attacker.ids["id"], one[trial.form]) for one in (theirs, none)]
        replies = [send_case(attacker.client, trial.case, ids) for ids in sent]
        seen, unseen = (build_comparable_reply(reply, ids) for reply, ids in zip(replies, sent, strict=True))
        assert seen == unseen or may_learn_existence(trial, attacker), f"{attacker.name}: {trial}"
        assert not [one for one in list_hidden_secrets(attacker) if one in replies[0].text], f"{attacker.name}: {trial}"
        statuses.add(replies[0].status_code)
    assert snapshot_owners(grid) == before
    assert {200, 403, 404} <= statuses


def test_grid_detects_missing_isolation(grid: Grid) -> None:
    """The owner's key takes an attacker's place: its replies to real ids differ from those to invented ids."""
    reads = [case for case in CASES if case.is_read_only and "document" in case.fields]
    owner = Attacker("A's admin", grid.owners["first"].admin, grid.owned_ids["first"])
    nothing = invent_forms()
    differs = 0
    for trial in generate_trials(reads, grid.owned_ids, owner):
        if trial.kind.name == "of another tenant" and trial.form == "id":
            sent = [trial.build_ids(owner.ids["id"], one["id"]) for one in (grid.owned_ids["first"], nothing)]
            seen, unseen = (build_comparable_reply(send_case(owner.client, trial.case, ids), ids) for ids in sent)
            differs += seen != unseen
    assert differs > 10
