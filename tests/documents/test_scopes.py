"""Scopes: which ids name a level, which keys a search sees, and that no two levels share a key."""

from itertools import product

import pytest

from app.db.models.base import SYSTEM_TENANT
from app.documents.scopes import SHARED, Scope, ScopeLevel
from app.errors import InvalidInput
from app.ids import new_id

TENANT, USER, CHAT, AGENT = Scope(), Scope("u"), Scope(None, "c"), Scope(None, "c", "a")


@pytest.mark.parametrize(
    ("scope", "level"),
    [
        (TENANT, ScopeLevel.TENANT),
        (USER, ScopeLevel.USER),
        (CHAT, ScopeLevel.CHAT_SHARED),
        (AGENT, ScopeLevel.CHAT_AGENT),
        (SHARED, ScopeLevel.SHARED),
    ],
)
def test_the_ids_name_the_level(scope: Scope, level: ScopeLevel) -> None:
    assert scope.level() is level
    assert scope.key() in scope.visible()


@pytest.mark.parametrize("ids", [("u", "c", None), ("u", None, "a"), ("u", "c", "a"), (None, None, "a")])
def test_other_combinations_name_none(ids: tuple[str | None, ...]) -> None:
    with pytest.raises(InvalidInput):
        Scope(*ids).level()
    with pytest.raises(InvalidInput):
        Scope(*ids).key()


def test_what_is_the_system_tenants_is_shared_and_has_no_ids() -> None:
    assert TENANT.of_tenant(SYSTEM_TENANT) == SHARED
    assert SHARED.of_tenant(SYSTEM_TENANT) == SHARED
    for scope in (TENANT, USER, CHAT, AGENT):
        assert scope.of_tenant(new_id()) == scope
    for scope in (USER, CHAT, AGENT):
        with pytest.raises(InvalidInput):
            scope.of_tenant(SYSTEM_TENANT).key()


def test_a_search_sees_the_tenant_and_what_it_names_and_nothing_else() -> None:
    documents = {"tenant": TENANT, "user": USER, "chat": CHAT, "agent": AGENT}

    def seen(scope: Scope) -> set[str]:
        return {name for name, document in documents.items() if document.key() in scope.visible()}

    assert seen(Scope()) == {"tenant"}
    assert seen(Scope("u")) == {"tenant", "user"}
    assert seen(Scope("another")) == {"tenant"}
    assert seen(Scope(None, "c")) == {"tenant", "chat"}
    assert seen(Scope(None, "c", "a")) == {"tenant", "chat", "agent"}
    assert seen(Scope(None, "c", "another")) == {"tenant", "chat"}
    assert seen(Scope(None, "another", "a")) == {"tenant"}
    assert seen(Scope("u", "c", "a")) == {"tenant", "user", "chat", "agent"}
    assert seen(SHARED) == set()
    assert SHARED.visible() == [SHARED.key()]
    assert SHARED.key() in Scope("u", "c", "a").visible()


def test_no_two_scopes_share_a_key() -> None:
    tricky = ["a", "b", "ab", "a|1:b", "1:a", "|", "|1:a", "None", "0:None", "é", "a" * 256]
    scopes = [Scope(), SHARED, *(Scope(user) for user in tricky), *(Scope(None, chat) for chat in tricky)]
    scopes += [Scope(None, chat, agent) for chat, agent in product(tricky, tricky)]
    assert len({scope.key() for scope in scopes}) == len(scopes)
