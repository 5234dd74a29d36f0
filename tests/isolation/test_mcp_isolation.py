"""The isolation of the MCP API: each tool, each of its arguments, and each kind of resource."""

import re

from app.api.mcp.resources import RESOURCE_TEMPLATES as RESOURCES
from app.api.mcp.server import create_server
from app.api.mcp.tools import TOOLS
from proofs.isolation.cases import MCP, PLAIN_FIELDS, TEMPLATES, RequestTemplate
from proofs.isolation.routes import iter_properties


def told(template: RequestTemplate, method: str) -> dict[str, object]:
    """Return the parameters of a message with this method."""
    params: dict[str, object] = template.json["params"]
    return params if template.json["method"] == method else {}


def test_every_tool_is_called_with_every_argument_that_names_something() -> None:
    calls = [told(template, "tools/call") for template in TEMPLATES[MCP]]
    assert {call["name"] for call in calls if call} == set(TOOLS)
    missing = []
    for name, spec in TOOLS.items():
        given = {argument for call in calls if call.get("name") == name for argument in _arguments(call)}
        wanted = set(iter_properties(spec.arguments.model_json_schema())) - (PLAIN_FIELDS - {"filter"})
        missing += [f"{name}: {argument}" for argument in sorted(wanted - given - {"cursor"})]
    assert missing == [], "add them to proofs/isolation/cases.py"


def _arguments(call: dict[str, object]) -> set[str]:
    arguments = call["arguments"]
    assert isinstance(arguments, dict)
    return set(arguments)


def test_every_kind_of_resource_is_read() -> None:
    read = {
        str(told(template, "resources/read")["uri"]) for template in TEMPLATES[MCP] if told(template, "resources/read")
    }
    kinds = {template.uri_template for template in RESOURCES.resource_templates}
    assert {re.sub(r"<document>", "{document}", re.sub(r"from/[0-9]+", "from/{start}", uri)) for uri in read} == kinds


def test_every_method_that_is_served_is_asked() -> None:
    """The server has tools and resources, and no other methods."""
    offered = create_server().get_capabilities().model_dump(exclude_none=True)
    assert set(offered) == {"tools", "resources"}
    methods = {"tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read"}
    assert {template.json["method"] for template in TEMPLATES[MCP]} == methods
