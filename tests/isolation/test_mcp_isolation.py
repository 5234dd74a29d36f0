"""The isolation of the MCP API: each tool, each of its arguments, and each kind of resource."""

import re

from app.api.mcp.resources import RESOURCE_TEMPLATES as RESOURCES
from app.api.mcp.server import create_server
from app.api.mcp.tools import TOOLS
from proofs.isolation.cases import MCP, TEMPLATES, RequestTemplate
from proofs.isolation.fields import PLAIN_FIELDS
from proofs.isolation.routes import iter_properties


def params_of(template: RequestTemplate, method: str) -> dict[str, object]:
    """Return the parameters of a message with this method."""
    params: dict[str, object] = template.json["params"]
    return params if template.json["method"] == method else {}


def test_every_mcp_tool_argument_is_tried() -> None:
    calls = [params_of(template, "tools/call") for template in TEMPLATES[MCP]]
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


def test_every_mcp_resource_kind_is_read() -> None:
    read = {
        str(params_of(template, "resources/read")["uri"])
        for template in TEMPLATES[MCP]
        if params_of(template, "resources/read")
    }
    kinds = {template.uri_template for template in RESOURCES.resource_templates}
    assert {re.sub(r"<document>", "{document}", re.sub(r"from/[0-9]+", "from/{start}", uri)) for uri in read} == kinds


def test_every_mcp_method_is_tried() -> None:
    """The server has tools and resources, and no other methods."""
    offered = create_server().get_capabilities().model_dump(exclude_none=True)
    assert set(offered) == {"tools", "resources"}
    methods = {"tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read"}
    assert {template.json["method"] for template in TEMPLATES[MCP]} == methods
