"""``carrel kb publish``, ``publication`` and ``unpublish``: what they print, and that it is enough to read by."""

import asyncio
from functools import partial

import pytest

from harness.running_service import Service, Tenant
from tests.cli.commands import printed
from tests.sql_views.platform import Published, allow, eventually


@pytest.fixture
def tenant(publishing: Service) -> Tenant:
    return allow(publishing.new_tenant())


def test_published_read_and_ended(tenant: Tenant) -> None:
    carrel = partial(printed, url=tenant.service.url, key=tenant.key)
    tenant.add_text("The heron fishes at dawn.")
    made = carrel("kb", "publish", "default", "--collection", "birds", "--content-key", "body", "--json")
    assert (made["manifest"]["collection"], made["manifest"]["content_key"]) == ("birds", "body")
    eventually(lambda: carrel("kb", "publication", "default", "--json")["state"] == "ready")
    published = Published(made["manifest"], made["password"])
    assert asyncio.run(published.texts()) == {"The heron fishes at dawn."}
    shown = carrel("kb", "publication", "default")
    assert made["manifest"]["user"] in shown
    assert made["password"] not in shown
    carrel("kb", "unpublish", "default", status=1)  # nobody said yes
    carrel("kb", "unpublish", "default", "--yes")
    assert "404" in carrel("kb", "publication", "default", status=1)
    assert asyncio.run(published.shows_nothing())


def test_the_password_is_told_once_and_clearly(tenant: Tenant) -> None:
    told = printed("kb", "publish", "default", url=tenant.service.url, key=tenant.key)
    (line,) = [line for line in told.splitlines() if line.startswith("password")]
    assert line.split()[1].startswith("carrel_db_")
