"""``carrel mcp``: the official client starts it as a command and speaks to it over its standard streams."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli.runtime import Credentials, write_credentials
from tests.cli.commands import COMMAND, environment, run
from tests.fixtures.mcp import McpClient, McpRefused, mcp_client
from tests.fixtures.service import Service, Tenant


@pytest.fixture(scope="module")
def library(service: Service) -> Tenant:
    tenant = service.new_tenant("desktop")
    tenant.add_text("Employees have thirty days of parental leave.", title="Leave")
    return tenant


@pytest.fixture(scope="module")
def process() -> Iterator[McpClient]:
    with mcp_client() as client:
        yield client


def command(directory: Path, *arguments: str, **settings: str) -> dict[str, Any]:
    """How a desktop agent is told to start it."""
    return {
        "command": COMMAND[0],
        "args": [*COMMAND[1:], "mcp", *arguments],
        "env": environment(settings),
        "cwd": str(directory),
    }


def test_a_desktop_agent_asks_as_over_http(process: McpClient, library: Tenant, tmp_path: Path) -> None:
    """Named on the command line, and by the environment in an older version of the protocol: the same answers."""
    over_http = process.of(library)
    named = process.at(**command(tmp_path, "--url", library.service.url, "--key", library.key))
    settings = {"CARREL_URL": library.service.url, "CARREL_API_KEY": library.key}
    older = process.at(mode="legacy", **command(tmp_path, **settings))
    for client in (named, older):
        assert client.ask("list_tools")["tools"] == over_http.ask("list_tools")["tools"]
        (found,) = client.call("search", query="parental leave")["results"]
        assert client.call("fetch", id=found["id"]) == over_http.call("fetch", id=found["id"])
        assert client.refused("fetch", id="nothing") == over_http.refused("fetch", id="nothing")
        (resource,) = client.ask("list_resources")["resources"]
        assert "thirty days" in client.ask("read_resource", resource["uri"])["contents"][0]["text"]
        assert len(client.ask("list_resource_templates")["resourceTemplates"]) == 2
        with pytest.raises(McpRefused, match="no such document"):
            client.ask("read_resource", "carrel://documents/nothing")
        with pytest.raises(McpRefused, match="cursor"):
            client.ask("list_resources", cursor="nonsense")


def test_it_finds_what_serve_left(process: McpClient, library: Tenant, tmp_path: Path) -> None:
    write_credentials(tmp_path, Credentials(library.service.url, library.key))
    client = process.at(**command(tmp_path, CARREL_DATA_DIR=str(tmp_path)))
    assert len(client.call("list_knowledge_bases")["knowledge_bases"]) == 1


def test_a_service_that_cannot_be_asked_is_one_line(library: Tenant, tmp_path: Path) -> None:
    for arguments, told in (
        (("--url", library.service.url, "--key", "wrong"), "401"),
        (("--url", "http://127.0.0.1:1", "--key", "wrong"), "does not answer"),
        ((), "--url"),
    ):
        done = run(tmp_path, "mcp", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("carrel: ")
        assert told in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_it_prints_nothing_but_the_protocol_and_ends_with_its_input(library: Tenant, tmp_path: Path) -> None:
    line = '{"jsonrpc":"2.0","id":1,"method":"ping"}\nnonsense\n'
    done = subprocess.run(
        [sys.executable, *COMMAND[1:], "mcp", "--url", library.service.url, "--key", library.key],
        cwd=tmp_path, env=environment({}), input=line, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [one[:16] for one in done.stdout.splitlines()] == ['{"jsonrpc":"2.0"'] * len(done.stdout.splitlines())
    assert '"id":1' in done.stdout
    assert "Traceback" not in done.stderr
