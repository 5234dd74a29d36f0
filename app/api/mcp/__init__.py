"""MCP at ``/mcp``: search and documents as tools and resources, for agents that speak the Model Context Protocol."""

from app.api.mcp.endpoint import mcp_lifespan, router

__all__ = ["mcp_lifespan", "router"]
