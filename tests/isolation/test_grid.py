"""The grid of ``make prove NAME=isolation``: its size, and a share of it against the tests' service."""

import random
from collections.abc import Iterator

import pytest

from harness.running_service import Service
from proofs.isolation.comparison import outcome, send
from proofs.isolation.grid import (
    CHATS,
    KINDS,
    OPERATOR,
    ROLES,
    Grid,
    Trial,
    is_told,
    kept,
    make_grid,
    places,
    secrets_from,
    trials,
    unreal,
)
from proofs.isolation.tenants import Attacker
from tests.isolation.test_http_isolation import CASES

OWNERS = ("first", "second", "third", "operator", "gone")
KEYS_OF_A_ROLE = 7
TRIED = 150


@pytest.fixture(scope="module")
def grid(service: Service) -> Grid:
    return make_grid(service, roles=("writer",))


def everything(attacker: str) -> Iterator[Trial]:
    things = {owner: unreal() for owner in OWNERS}
    return trials(CASES, things, Attacker(attacker, None, unreal()))  # type: ignore[arg-type]  # nobody asks


def test_there_are_enough_combinations() -> None:
    one = list(everything("B's admin"))
    assert len(set(map(str, one))) == len(one)
    assert len(one) * KEYS_OF_A_ROLE * len(ROLES) >= 50_000


def test_every_operation_with_an_id_is_in_it_in_every_place() -> None:
    tried = {(str(trial.case), trial.place) for trial in everything("B's admin")}
    assert tried == {(str(case), place) for case in CASES for place in places(case)}
    assert {trial.kind for trial in everything("B's admin")} == set(KINDS)


def test_what_the_operator_may_see_is_not_asked_for() -> None:
    tried = list(everything(OPERATOR))
    assert not [
        trial for trial in tried if trial.case.operators or "tenant" in trial.place or trial.kind.owner == "operator"
    ]
    assert len(tried) > 1000


def test_only_chats_and_bindings_are_told_and_only_in_the_same_tenant() -> None:
    keys = ("A's writer of both", "A's writer of a kb", "B's writer of both", OPERATOR)
    told = [(key, trial) for key in keys for trial in everything(key) if is_told(trial, Attacker(key, None, {}))]  # type: ignore[arg-type]
    bindings = [(key, trial) for key, trial in told if trial.case.binds]
    chats = [(key, trial) for key, trial in told if not trial.case.binds]
    assert {key for key, _ in bindings} == {"A's writer of both", "A's writer of a kb"}
    assert all("agent_id" in trial.place for _, trial in bindings)
    assert {key for key, _ in chats} == {"A's writer of both"}
    assert all(CHATS & set(trial.place) and not trial.case.reads for _, trial in chats)


def test_a_share_of_it(grid: Grid) -> None:
    before = kept(grid)
    chosen = random.Random(5)
    all_of_it = [(attacker, trial) for attacker in grid.attackers for trial in trials(CASES, grid.things, attacker)]
    nothing = {attacker.name: {owner: unreal() for owner in OWNERS} for attacker in grid.attackers}
    statuses = set()
    for attacker, trial in sorted(chosen.sample(all_of_it, TRIED), key=lambda one: not one[1].case.reads):
        theirs, none = grid.things[trial.kind.owner], nothing[attacker.name][trial.kind.owner]
        sent = [trial.ids(attacker.ids["id"], one[trial.form]) for one in (theirs, none)]
        replies = [send(attacker.client, trial.case, ids) for ids in sent]
        seen, unseen = (outcome(reply, ids) for reply, ids in zip(replies, sent, strict=True))
        assert seen == unseen or is_told(trial, attacker), f"{attacker.name}: {trial}"
        assert not [one for one in secrets_from(attacker) if one in replies[0].text], f"{attacker.name}: {trial}"
        statuses.add(replies[0].status_code)
    assert kept(grid) == before
    assert {200, 403, 404} <= statuses


def test_a_wall_that_is_down_is_noticed(grid: Grid) -> None:
    """The owner's own key in an attacker's place: what is there is not like nothing."""
    reads = [case for case in CASES if case.reads and "document" in case.fields]
    owner = Attacker("A's admin", grid.owners["first"].admin, grid.things["first"])
    nothing = unreal()
    differs = 0
    for trial in trials(reads, grid.things, owner):
        if trial.kind.name == "another's" and trial.form == "id":
            sent = [trial.ids(owner.ids["id"], one["id"]) for one in (grid.things["first"], nothing)]
            seen, unseen = (outcome(send(owner.client, trial.case, ids), ids) for ids in sent)
            differs += seen != unseen
    assert differs > 10
