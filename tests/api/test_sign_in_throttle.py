"""Throttle of failed sign-ins: an address must wait after several failures; valid keys are not affected."""

from collections.abc import Iterator

import httpx2
import pytest

from app.tenants.types import generate_key
from harness.databases import DatabaseFactory
from harness.running_service import OPERATOR_KEY, Service, build_settings, run_service
from tests.api.problems import assert_problem

LIMIT = 5


@pytest.fixture(scope="module")
def strict(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = build_settings(tmp_path_factory.mktemp("strict"), identity={"CARREL_AUTH_FAILURES_PER_MINUTE": LIMIT})
    with run_service(settings, make_database(), worker=False) as running:
        yield running


def attempt(service: Service, address: str, key: str | None = None) -> httpx2.Response:
    """Send a request from an address of this machine."""
    transport = httpx2.HTTPTransport(local_address=address, verify=False)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with httpx2.Client(base_url=service.url, transport=transport, headers=headers) as client:
        return client.get("/v1/me")


@pytest.mark.capability("key-throttle")
def test_sign_in_failures_are_throttled_per_address(strict: Service) -> None:
    tenant = strict.create_tenant()
    for number in range(LIMIT):
        assert_problem(attempt(strict, "127.0.0.2", generate_key() if number % 2 else "nonsense"), 401, "unauthorized")
    for key in (generate_key(), "nonsense", tenant.key[:-1]):
        reply = attempt(strict, "127.0.0.2", key)
        assert_problem(reply, 429, "too_many_failed_sign_ins")
        assert 1 <= int(reply.headers["retry-after"]) <= 60
        assert "www-authenticate" not in reply.headers
    # The same address with a valid key, without a key, and with the operator's key.
    assert attempt(strict, "127.0.0.2", tenant.key).status_code == 200
    assert attempt(strict, "127.0.0.2", OPERATOR_KEY).status_code == 200
    assert_problem(attempt(strict, "127.0.0.2"), 401, "unauthorized")
    # Another address.
    assert_problem(attempt(strict, "127.0.0.3", "nonsense"), 401, "unauthorized")


def test_sign_in_other_refusals_are_not_counted(strict: Service) -> None:
    tenant = strict.create_tenant()
    for _ in range(2 * LIMIT):
        assert_problem(attempt(strict, "127.0.0.4"), 401, "unauthorized")
    transport = httpx2.HTTPTransport(local_address="127.0.0.4", verify=False)
    headers = {"Authorization": f"Bearer {tenant.key}"}
    with httpx2.Client(base_url=strict.url, transport=transport, headers=headers) as client:
        for _ in range(2 * LIMIT):
            assert_problem(client.get("/v1/tenants"), 403, "forbidden")
    assert_problem(attempt(strict, "127.0.0.4", "nonsense"), 401, "unauthorized")
