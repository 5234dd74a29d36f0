"""``carrel mcp``: the official client starts it as a command and uses its standard streams."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from carrel_client import ConnectionFailed, Unauthorized

from app.cli.endpoint import ServiceNotConfigured
from app.cli.mcp_proxy import mcp
from app.cli.runtime_state import Credentials, write_credentials
from harness.running_service import Service, Tenant
from tests.cli.commands import COMMAND, environment
from tests.fixtures.mcp import McpClient, McpRefused, mcp_client


@pytest.fixture(scope="module")
def library(service: Service) -> Tenant:
    tenant = service.create_tenant("desktop")
    tenant.add_text("Employees have thirty days of parental leave.", title="Leave")
    return tenant


@pytest.fixture(scope="module")
def process() -> Iterator[McpClient]:
    with mcp_client() as client:
        yield client


def command(directory: Path, *arguments: str, **settings: str) -> dict[str, Any]:
    """Return the parameters with which a desktop agent starts the command."""
    return {
        "command": COMMAND[0],
        "args": [*COMMAND[1:], "mcp", *arguments],
        "env": environment(settings),
        "cwd": str(directory),
    }


@pytest.mark.capability("mcp-stdio")
def test_mcp_command_answers_like_http(process: McpClient, library: Tenant, tmp_path: Path) -> None:
    over_http = process.of(library)
    client = process.at(**command(tmp_path, "--url", library.service.url, "--key", library.key))
    assert client.ask("list_tools")["tools"] == over_http.ask("list_tools")["tools"]
    (found,) = client.call("search", query="parental leave")["results"]
    assert client.call("fetch", id=found["id"]) == over_http.call("fetch", id=found["id"])
    assert client.refused("fetch", id="nothing") == over_http.refused("fetch", id="nothing")
    (resource,) = client.ask("list_resources")["resources"]
    assert "thirty days" in client.ask("read_resource", resource["uri"])["contents"][0]["text"]
    assert len(client.ask("list_resource_templates")["resourceTemplates"]) == 2
    with pytest.raises(McpRefused, match="document does not exist"):
        client.ask("read_resource", "carrel://documents/nothing")
    with pytest.raises(McpRefused, match="cursor"):
        client.ask("list_resources", cursor="nonsense")


def test_mcp_command_uses_stored_credentials_and_prints_protocol_only(library: Tenant, tmp_path: Path) -> None:
    """The client sends an older protocol version and an invalid line; the command ends with its input."""
    write_credentials(tmp_path, Credentials(library.service.url, library.key))
    hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "desk", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_knowledge_bases"}},
    ]
    with subprocess.Popen(
        [*COMMAND, "mcp"], cwd=tmp_path, env=environment({"CARREL_DATA_DIR": str(tmp_path)}),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as started:  # fmt: skip
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
        started.stdin.flush()
        replies = [json.loads(started.stdout.readline()) for _ in range(2)]
        rest, told = started.communicate("nonsense\n", timeout=60)
    assert started.returncode == 0, told
    assert [reply["id"] for reply in replies] == [1, 2]
    assert replies[0]["result"]["serverInfo"]["name"] == "carrel"
    assert len(replies[1]["result"]["structuredContent"]["knowledge_bases"]) == 1
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())


def test_mcp_command_without_usable_service_prints_reason(
    library: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unauthorized, match="401"):
        mcp(library.service.url, "wrong")
    with pytest.raises(ConnectionFailed, match="does not answer"):
        mcp("http://127.0.0.1:1", "wrong")
    with pytest.raises(ServiceNotConfigured, match="--url"):
        mcp(None, None)
