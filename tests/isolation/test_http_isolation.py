"""Another tenant's id gets the reply of an unknown id at every endpoint, in path, query and body.

Each case first succeeds for the owner. Then the attackers send the same request with A's ids and with invented ones,
all of them and one at a time. The attackers are tenant B, and keys of A that are restricted to another knowledge base.
Status, headers and body must be the same. Finally the case succeeds for the owner again, so the attempts have changed
nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.routing import Mount, Route

from harness.running_service import Service
from harness.unopened_app import create_unopened_app
from proofs.isolation.cases import SECRET, TEMPLATES, EndpointCase, RequestTemplate, find_unknown_fields, list_cases
from proofs.isolation.comparison import build_comparable_reply, has_succeeded, send_case, sent_counts
from proofs.isolation.routes import RouteEndpoint, list_endpoints
from proofs.isolation.tenants import (
    Attacker,
    Ids,
    IsolationTenants,
    create_isolation_tenants,
    create_objects,
    get_operator_tenant,
    invent_ids,
)

ENDPOINTS = list(list_endpoints(create_unopened_app().routes))
# Cases that change nothing come first: attackers' own uploads must not appear between two searches.
CASES = sorted(
    (case for endpoint in ENDPOINTS for case in list_cases(endpoint)), key=lambda case: not case.is_read_only
)
# Fields of cases that can be the operator's, who has no users and no chats.
SHAREABLE = {"kb", "kb_name", "document", "node", "chunk", "n", "external_id"}


@pytest.fixture(scope="module")
def tenants(service: Service) -> Iterator[IsolationTenants]:
    yield create_isolation_tenants(service, SECRET)
    print(
        f"\n{len(ENDPOINTS)} endpoints, {len(CASES)} cases, {sent_counts['pairs']} comparisons, "
        f"{sent_counts['requests']} requests"
    )


def attempts(groups: Sequence[Sequence[str]], mine: Ids, theirs: Ids, nothing: Ids) -> Iterator[tuple[Ids, Ids]]:
    """Yield pairs of ids to send: the other tenant's, and invented ones in the same places."""
    for names in groups:
        yield {**mine, **{name: theirs[name] for name in names}}, {**mine, **{name: nothing[name] for name in names}}


def compare(case: EndpointCase, attacker: Attacker, theirs: Ids, form: str) -> None:
    # One foreign id at a time among the attacker's own. This check does not depend on the role, so the
    # strongest is enough.
    alone = [[name] for name in case.fields] if len(case.fields) > 1 and attacker.name.endswith("admin") else []
    for foreign, random in attempts([case.fields, *alone], attacker.ids[form], theirs, invent_ids(form)):
        sent_counts["pairs"] += 1
        replies = [send_case(attacker.client, case, ids) for ids in (foreign, random)]
        seen, unseen = (
            build_comparable_reply(reply, ids) for reply, ids in zip(replies, (foreign, random), strict=True)
        )
        # A key of the same tenant names an agent whose binding covers only knowledge bases that the key cannot
        # see.
        is_told = case.is_agent_bound and attacker.name.startswith("A's") and foreign["agent_id"] == theirs["agent_id"]
        assert seen == unseen or is_told, f"{case} tells {attacker.name} apart: {foreign} from {random}"
        assert replies[0].status_code < 500
        told = {theirs[name] for name in ("kb", "document", "external_id", "api_key")} - set(foreign.values())
        assert not [word for word in (SECRET + " flies", *told) if word in replies[0].text], (
            f"{case} shows {attacker.name} too much"
        )


@pytest.mark.capability("isolation-http")
@pytest.mark.parametrize(
    ("case", "form"),
    [
        pytest.param(case, form, id=f"{case} by {form}")
        for case in CASES
        for form in ("name", "id")
        if form == "name" or "kb" in case.fields
    ],
)
def test_foreign_ids_get_reply_of_unknown_ids(tenants: IsolationTenants, case: EndpointCase, form: str) -> None:
    owner = tenants.get_owner_client(operators=case.is_operator_only)

    def things() -> Ids:
        fields = (*case.fields, *case.template.needs)
        return (
            tenants.owned_ids[form]
            if case.is_read_only
            else create_objects(tenants.owning_tenant, f"The {SECRET} flies.", fields=fields, form=form)
        )

    def owners(ids: Ids) -> Ids:
        return {**ids, "taken": invent_ids(form)["taken"]}  # a new name must be unused

    first = send_case(owner, case, owners(things()))
    assert has_succeeded(first), f"{case}: {first.status_code} {first.text}"
    theirs = things()
    for attacker in tenants.attackers:
        compare(case, attacker, theirs, form)
    again = send_case(owner, case, owners(theirs))
    assert has_succeeded(again), f"{case}: {again.text}"
    assert again.status_code == first.status_code, f"{case}: {again.status_code} {again.text}"
    if case.is_search:
        assert f"{SECRET} flies" in again.text


@pytest.mark.parametrize(
    "case", [case for case in CASES if {"document"} <= set(case.fields) <= SHAREABLE], ids=lambda case: str(case)
)
@pytest.mark.parametrize("form", ["name", "id"])
def test_shared_document_under_other_name_is_not_found(
    tenants: IsolationTenants, case: EndpointCase, form: str
) -> None:
    """The operator has a document in a knowledge base whose name the tenant does not use."""
    operator = get_operator_tenant(tenants.owning_tenant.service)
    fields = (*case.fields, *case.template.needs)
    theirs = create_objects(operator, f"The {SECRET} flies.", fields=fields, form=form)
    compare(case, tenants.attackers[0], theirs, form)
    assert has_succeeded(send_case(operator.admin, case, theirs))
    operator.admin.delete(f"/v1/knowledge-bases/{theirs['kb']}").raise_for_status()


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_every_endpoint_field_is_classified(endpoint: RouteEndpoint) -> None:
    assert find_unknown_fields(endpoint) == [], "add them to proofs/isolation/cases.py"


def test_new_endpoint_is_detected() -> None:
    inner = FastAPI()

    @inner.post("/things/{thing}")
    def change(thing: str, body: dict[str, str], owner_id: str = "") -> None: ...

    async def closed(scope: Any, receive: Any, send: Any) -> None: ...

    outer = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    outer.mount("/inner", inner)
    outer.mount("/closed", closed)
    outer.router.routes.append(Mount("/deep", routes=[Route("/{leaf}", closed, methods=["DELETE"])]))
    found = {endpoint.name: find_unknown_fields(endpoint) for endpoint in list_endpoints(outer.routes)}
    assert found["POST /inner/things/{thing}"] == ["path: thing", "query: owner_id", "a body"]
    assert found["* /closed"] == ["/closed: a mounted application without visible routes"]
    assert found["DELETE /deep/{leaf}"] == ["path: leaf"]


def test_comparison_detects_difference(tenants: IsolationTenants) -> None:
    """The owner sends real ids and invented ids: the replies differ, and no other caller may see that difference."""
    case = EndpointCase(RouteEndpoint("GET", "/v1/knowledge-bases/{kb}/documents/{document}"), RequestTemplate(), 0)
    for form in ("name", "id"):
        mine = tenants.owned_ids[form]
        there, nothing = (
            build_comparable_reply(send_case(tenants.owning_tenant.admin, case, ids), ids)
            for ids in (mine, invent_ids(form))
        )
        assert there[0] == 200
        assert nothing[0] == 404
        owner = Attacker("the owner", tenants.owning_tenant.admin, {form: mine})
        with pytest.raises(AssertionError, match="apart"):
            compare(case, owner, mine, form)


def test_case_names_are_endpoints() -> None:
    """A case of a deleted endpoint would prove nothing."""
    assert set(TEMPLATES) - {endpoint.name for endpoint in ENDPOINTS} == set()
