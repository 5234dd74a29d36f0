"""``carrel kb sql-view``: output, and that the output is enough to read the view."""

import asyncio
from functools import partial

import pytest

from harness.running_service import Service, Tenant
from tests.cli.commands import printed
from tests.sql_views.platform import Published, allow, eventually


@pytest.fixture
def tenant(publishing: Service) -> Tenant:
    return allow(publishing.create_tenant())


def test_sql_view_commands_create_show_and_delete(tenant: Tenant) -> None:
    carrel = partial(printed, url=tenant.service.url, key=tenant.key)
    tenant.add_text("The heron fishes at dawn.")
    made = carrel("kb", "sql-view", "create", "default", "--collection", "birds", "--content-key", "body", "--json")
    assert made["connection"]["collection"].endswith(".birds")
    assert made["connection"]["content_key"] == "body"
    eventually(lambda: carrel("kb", "sql-view", "show", "default", "--json")["state"] == "ready")
    published = Published(made["connection"], made["password"])
    assert asyncio.run(published.texts()) == {"The heron fishes at dawn."}
    shown = carrel("kb", "sql-view", "show", "default")
    assert made["connection"]["user"] in shown
    assert made["password"] not in shown
    carrel("kb", "sql-view", "delete", "default", status=1)  # without --yes
    carrel("kb", "sql-view", "delete", "default", "--yes")
    assert "404" in carrel("kb", "sql-view", "show", "default", status=1)
    assert asyncio.run(published.shows_nothing())


def test_sql_view_command_prints_password_once(tenant: Tenant) -> None:
    told = printed("kb", "sql-view", "create", "default", url=tenant.service.url, key=tenant.key)
    (line,) = [line for line in told.splitlines() if line.startswith("password")]
    assert line.split()[1].startswith("carrel_db_")
