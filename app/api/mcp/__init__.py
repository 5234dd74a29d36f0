"""MCP at ``/mcp``: search and documents as tools and resources, for agents that speak the Model Context Protocol."""

from app.api.mcp.door import open_door, router

__all__ = ["open_door", "router"]
