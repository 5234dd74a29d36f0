"""Scopes: the ids of each level, the keys that a search sees, and no two levels with one key."""

from itertools import product

import pytest

from app.db.models.base import SYSTEM_TENANT
from app.documents.scopes import SHARED_SCOPE, DocumentScope, ScopeLevel
from app.errors import InvalidInputError
from app.ids import generate_id

TENANT, USER, CHAT, AGENT = DocumentScope(), DocumentScope("u"), DocumentScope(None, "c"), DocumentScope(None, "c", "a")
USER_CHAT, USER_AGENT = DocumentScope("u", "c"), DocumentScope("u", "c", "a")
# Keys of SHARED_SCOPE, TENANT, USER, CHAT and AGENT.
KEYS = [
    "31422a18-ac5a-5dd1-96d8-89a187afeff9",
    "7685c63c-898a-5fdf-9657-6dbb2c1d163f",
    "aff45c60-2b59-5fc6-b1cb-24f2c99a5130",
    "bd7a31ac-9aa3-574c-8f2b-3b16a1e2e23b",
    "51800f69-1a60-5bde-9192-a97e15a0112f",
]


@pytest.mark.parametrize(
    ("scope", "level"),
    [
        (TENANT, ScopeLevel.TENANT),
        (USER, ScopeLevel.USER),
        (CHAT, ScopeLevel.CHAT_SHARED),
        (AGENT, ScopeLevel.CHAT_AGENT),
        (USER_CHAT, ScopeLevel.CHAT_SHARED),
        (USER_AGENT, ScopeLevel.CHAT_AGENT),
        (SHARED_SCOPE, ScopeLevel.SHARED),
    ],
)
def test_scope_ids_determine_level(scope: DocumentScope, level: ScopeLevel) -> None:
    assert scope.determine_level() is level
    assert scope.to_key() in scope.list_visible_keys()


@pytest.mark.parametrize("ids", [("u", None, "a"), (None, None, "a")])
def test_scope_other_combinations_are_refused(ids: tuple[str | None, ...]) -> None:
    with pytest.raises(InvalidInputError):
        DocumentScope(*ids).determine_level()
    with pytest.raises(InvalidInputError):
        DocumentScope(*ids).to_key()


def test_scope_of_system_tenant_is_shared_without_ids() -> None:
    assert TENANT.with_tenant(SYSTEM_TENANT) == SHARED_SCOPE
    assert SHARED_SCOPE.with_tenant(SYSTEM_TENANT) == SHARED_SCOPE
    for scope in (TENANT, USER, CHAT, AGENT, USER_CHAT, USER_AGENT):
        assert scope.with_tenant(generate_id()) == scope
    for scope in (USER, CHAT, AGENT, USER_CHAT, USER_AGENT):
        with pytest.raises(InvalidInputError):
            scope.with_tenant(SYSTEM_TENANT).to_key()


def test_scope_visible_keys_are_tenant_and_named_levels() -> None:
    documents = {
        "tenant": TENANT, "user": USER, "chat": CHAT, "agent": AGENT, "user chat": USER_CHAT, "user agent": USER_AGENT,
    }  # fmt: skip

    def seen(scope: DocumentScope) -> set[str]:
        return {name for name, document in documents.items() if document.to_key() in scope.list_visible_keys()}

    assert seen(DocumentScope()) == {"tenant"}
    assert seen(DocumentScope("u")) == {"tenant", "user"}
    assert seen(DocumentScope("another")) == {"tenant"}
    assert seen(DocumentScope(None, "c")) == {"tenant", "chat"}
    assert seen(DocumentScope(None, "c", "a")) == {"tenant", "chat", "agent"}
    assert seen(DocumentScope(None, "c", "another")) == {"tenant", "chat"}
    assert seen(DocumentScope(None, "another", "a")) == {"tenant"}
    assert seen(DocumentScope("u", "c")) == {"tenant", "user", "user chat"}
    assert seen(DocumentScope("u", "c", "a")) == {"tenant", "user", "user chat", "user agent"}
    assert seen(DocumentScope("u", "c", "another")) == {"tenant", "user", "user chat"}
    assert seen(DocumentScope("u", "another", "a")) == {"tenant", "user"}
    assert seen(DocumentScope("another", "c", "a")) == {"tenant"}
    assert seen(SHARED_SCOPE) == set()
    assert SHARED_SCOPE.list_visible_keys() == [SHARED_SCOPE.to_key()]
    assert SHARED_SCOPE.to_key() in DocumentScope("u", "c", "a").list_visible_keys()


def test_scope_keys_are_unique() -> None:
    tricky = ["a", "b", "ab", "a|1:b", "1:a", "|", "|1:a", "None", "0:None", "é", "a" * 256]
    scopes = [
        DocumentScope(),
        SHARED_SCOPE,
        *(DocumentScope(user) for user in tricky),
        *(DocumentScope(None, chat) for chat in tricky),
    ]
    scopes += [DocumentScope(None, chat, agent) for chat, agent in product(tricky, tricky)]
    scopes += [DocumentScope(user, chat) for user, chat in product(tricky, tricky)]
    scopes += [DocumentScope(*ids) for ids in product(tricky, tricky, tricky)]
    assert len({scope.to_key() for scope in scopes}) == len(scopes)


def test_scope_keys_of_stored_documents_are_unchanged() -> None:
    """Stored rows have these keys: another encoding would hide all documents of users and chats."""
    assert [str(scope.to_key()) for scope in (SHARED_SCOPE, TENANT, USER, CHAT, AGENT)] == KEYS
