"""The MCP API at ``/mcp``: search and documents as tools and resources of the Model Context Protocol."""

from app.api.mcp.endpoint import mcp_lifespan, router

__all__ = ["mcp_lifespan", "router"]
