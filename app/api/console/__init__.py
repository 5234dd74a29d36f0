"""The console at ``/``: its page, its deep links and its files, outside of the OpenAPI document."""

from app.api.console.console_routes import SCREENS, add_console_routes

__all__ = ["SCREENS", "add_console_routes"]
