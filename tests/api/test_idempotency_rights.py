"""Idempotency-Key and permissions: a stored response is for callers with the permissions of the first caller."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.token_issuer import AUDIENCE, TokenIssuer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem
from tests.api.test_roles import NEEDED, READER

DOCUMENTS = "/v1/knowledge-bases/default/documents"
KEY = {"Idempotency-Key": "the-same"}
REPLAYED = "idempotent-replayed"
BODY = {"text": "The tern of Ada."}

As = Callable[..., httpx2.Client]


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenIssuer]:
    with TokenIssuer() as running:
        yield running


@pytest.fixture(scope="module")
def trusting(
    make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory, issuer: TokenIssuer
) -> Iterator[Service]:
    named = {"ISSUER": issuer.url, "AUDIENCE": AUDIENCE, "USER_CLAIM": "user", "KNOWLEDGE_BASES_CLAIM": "bases"}
    identity = {f"CARREL_OIDC_{name}": value for name, value in named.items()}
    with run_service(build_settings(tmp_path_factory.mktemp("data"), identity=identity), make_database()) as running:
        yield running


@pytest.fixture
def tenant(trusting: Service) -> Tenant:
    made = trusting.create_tenant()
    made.admin.post("/v1/knowledge-bases", json={"name": "other"}).raise_for_status()
    return made


@pytest.fixture
def bases(tenant: Tenant) -> dict[str, str]:
    return {name: tenant.admin.get(f"/v1/knowledge-bases/{name}").json()["id"] for name in ("default", "other")}


@pytest.fixture
def one(trusting: Service, issuer: TokenIssuer, tenant: Tenant, bases: dict[str, str]) -> As:
    """Factory of clients with one subject, whose tokens differ in role, user and knowledge bases."""

    def make(role: str = "writer", *, user: str = "ada", to: tuple[str, ...] = ("default", "other")) -> httpx2.Client:
        token = issuer.create_token(
            carrel_tenant=tenant.id, carrel_role=role, sub="someone", user=user, bases=[bases[name] for name in to]
        )
        return trusting.create_client(token)

    return make


def write(client: httpx2.Client, headers: dict[str, str] = KEY) -> httpx2.Response:
    return client.post(DOCUMENTS, json=BODY | {"user_id": "ada"}, headers=headers)


def test_idempotency_same_rights_get_the_stored_answer(one: As) -> None:
    first, again = write(one()), write(one())
    assert (first.status_code, again.status_code, again.headers[REPLAYED]) == (202, 202, "true")
    assert first.content == again.content


def test_idempotency_wider_rights_get_the_stored_answer(one: As) -> None:
    write(one(to=("default",))).raise_for_status()
    assert write(one("admin")).headers[REPLAYED] == "true"


def test_idempotency_lowered_role_gets_403(one: As) -> None:
    first = write(one())
    assert first.status_code == 202
    refused = write(one("reader"))
    assert_problem(refused, 403, "forbidden")
    assert first.json()["id"] not in refused.text
    # A writer does not get an admin's response, on a route that both may use.
    other = {"Idempotency-Key": "another"}
    write(one("admin"), other).raise_for_status()
    assert_problem(write(one(), other), 403, "idempotency_rights_changed")


@pytest.mark.parametrize("now", [{"user": "bob"}, {"to": ("other",)}, {"user": "bob", "to": ("default",)}])
def test_idempotency_narrowed_rights_get_403_and_nothing_is_written(
    one: As, tenant: Tenant, now: dict[str, Any]
) -> None:
    first = write(one())
    refused = write(one(**now))
    assert_problem(refused, 403, "idempotency_rights_changed")
    assert first.json()["id"] not in refused.text
    listed = tenant.admin.get(DOCUMENTS, params={"user_id": "ada"}).json()["items"]
    assert len(listed) == 1


def test_idempotency_role_is_checked_before_the_body_is_compared(one: As) -> None:
    write(one()).raise_for_status()
    assert_problem(one("reader").post(DOCUMENTS, json={"text": "Something else."}, headers=KEY), 403, "forbidden")


def test_idempotency_every_route_checks_the_role_first(one: As) -> None:
    """A refused caller's Idempotency-Key is not stored: a permitted caller can use it afterwards."""
    reader = one("reader")
    for route, role in NEEDED.items():
        method, path = route.split(" ", 1)
        if method == "GET" or role == READER:
            continue
        reply = reader.request(method, path.replace("{", "").replace("}", ""), content=b"{", headers=KEY)
        assert reply.status_code == 403, (route, reply.text)
    first = write(one())
    assert (first.status_code, REPLAYED in first.headers) == (202, False)
