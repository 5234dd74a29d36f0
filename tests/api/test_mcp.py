"""The MCP door, asked by the official client in a process of its own."""

from collections.abc import Iterator

import pytest

from tests.fixtures.mcp import McpClient, McpRefused, mcp_client
from tests.fixtures.service import Service, Tenant

HANDBOOK = "# Leave\n\nEmployees have thirty days of parental leave.\n"


@pytest.fixture(scope="module")
def process() -> Iterator[McpClient]:
    with mcp_client() as client:
        yield client


@pytest.fixture(scope="module")
def library(service: Service) -> Tenant:
    """A tenant with a described knowledge base, and two documents."""
    tenant = service.new_tenant("library")
    kb = {"name": "handbook", "title": "The handbook", "description": "Leave, pay\nand travel."}
    tenant.admin.post("/v1/knowledge-bases", json=kb).raise_for_status()
    tenant.add_text(
        HANDBOOK, kb="handbook", title="Leave", source_uri="https://example.com/leave", metadata={"year": 2024}
    )
    tenant.add_text("Travel is paid for by the company.", kb="handbook", metadata={"year": 2020})
    return tenant


@pytest.fixture(scope="module")
def client(process: McpClient, library: Tenant) -> McpClient:
    return process.of(library)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_tools_are_told(process: McpClient, library: Tenant, mode: str) -> None:
    tools = {tool["name"]: tool for tool in process.of(library, mode=mode).ask("list_tools")["tools"]}
    assert set(tools) == {"search", "fetch", "search_knowledge", "list_knowledge_bases"}
    assert tools["search"]["inputSchema"]["properties"].keys() == {"query"}
    assert tools["fetch"]["inputSchema"]["properties"].keys() == {"id"}
    told = tools["search_knowledge"]["description"]
    assert "- handbook (2 documents): The handbook. Leave, pay and travel." in told
    assert "- default (0 documents)" in told
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools.values())
    assert all(tool["outputSchema"]["type"] == "object" for tool in tools.values())


def test_the_first_run(client: McpClient) -> None:
    found = client.call("search", query="parental leave")["results"]
    assert [set(one) for one in found] == [{"id", "title", "url"}] * 2
    assert (found[0]["title"], found[0]["url"]) == ("Leave", "https://example.com/leave")
    fetched = client.call("fetch", id=found[0]["id"])
    assert set(fetched) == {"id", "title", "text", "url", "metadata"}
    print(
        fetched,
        client.call(
            "search_knowledge", query="leave", knowledge_bases=["handbook"], filter={"year": {"gte": 2024}}, top_k=3
        ),
    )
    print(client.call("list_knowledge_bases"))
    print(client.ask("list_resources"), client.ask("list_resource_templates"))
    print(client.ask("read_resource", client.ask("list_resources")["resources"][0]["uri"]))
    print(client.refused("fetch", id="doc_nothing"))
    try:
        client.ask("read_resource", "carrel://documents/nothing")
    except McpRefused as exc:
        print(exc.code, exc.message, exc.data)
