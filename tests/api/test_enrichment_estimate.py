"""Estimate of the enrichment against the tokens that documents really cost."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer
from harness.report_documents import DOCUMENT_WRITERS
from harness.running_service import Service, Tenant
from harness.section_writer import SectionWriter
from tests.api.enriching_service import (
    ENRICHMENT,
    KB,
    add,
    enable,
    run_enriching_service,
    wait_for,
)


@pytest.fixture(scope="module")
def service(
    running_chat: ChatServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    with run_enriching_service(running_chat, make_database, tmp_path_factory.mktemp("enriching")) as running:
        yield running


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.create_tenant("enriched")


def upload_documents(tenant: Tenant, kinds: Sequence[str], count: int) -> None:
    """Upload documents whose kinds take turns."""
    random = Random(1)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        add(tenant, DOCUMENT_WRITERS[kind](random, number), f"{kind}-{number}")


def compare_estimate(tenant: Tenant, chat: ChatServer, count: int, **settings: Any) -> float:
    """Estimate the cost of the uploaded documents, enrich them, and return the estimated share of the real cost."""
    tenant.admin.patch(KB, json={"enrichment": {"enabled": False, **settings}}).raise_for_status()
    estimate = tenant.admin.post(f"{ENRICHMENT}/estimate").json()
    assert (estimate["documents"], estimate["sampled_documents"], estimate["is_calibrated"]) == (count, count, False)
    assert not chat.text_requests
    enable(tenant, **settings)
    assert tenant.admin.post(f"{ENRICHMENT}/run").json() == {"enqueued": count}
    wait_for(lambda: tenant.admin.get(ENRICHMENT).json()["documents"]["done"] == count, seconds=300)
    status = tenant.admin.get(ENRICHMENT).json()
    print(estimate, status)
    assert status["calls_today"] == estimate["calls"]
    share: float = estimate["total_tokens"] / status["tokens_today"]
    return share


@pytest.mark.capability("enrich-estimate")
@pytest.mark.parametrize("lines", [False, True], ids=["without_lines", "with_lines"])
def test_estimate_is_within_a_fifth_of_the_cost_of_fifty_documents(
    tenant: Tenant, running_chat: ChatServer, writer: SectionWriter, lines: bool
) -> None:
    upload_documents(tenant, list(DOCUMENT_WRITERS), 50)
    assert 0.8 <= compare_estimate(tenant, running_chat, 50, context_lines=lines) <= 1.2
    assert tenant.admin.post(f"{ENRICHMENT}/estimate").json()["documents"] == 0
    before = tenant.admin.get(ENRICHMENT).json()["tokens_today"]
    add(tenant)
    wait_for(lambda: tenant.admin.get(ENRICHMENT).json()["documents"]["done"] == 51)
    assert before < tenant.admin.get(ENRICHMENT).json()["tokens_today"]


@pytest.mark.parametrize("lines", [False, True], ids=["without_lines", "with_lines"])
@pytest.mark.parametrize("kind", DOCUMENT_WRITERS)
def test_estimate_is_within_a_fifth_for_documents_of_each_kind(
    tenant: Tenant, running_chat: ChatServer, writer: SectionWriter, kind: str, lines: bool
) -> None:
    upload_documents(tenant, [kind], 6)
    assert 0.8 <= compare_estimate(tenant, running_chat, 6, context_lines=lines) <= 1.2
