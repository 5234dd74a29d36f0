"""The API documentation page: Swagger UI on ``/docs``, with every file from this service."""

import json
from html import escape
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse

_STATIC = Path(__file__).with_name("static")
_MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
# The style sheet has images as data. Scripts and styles come from files of this service alone.
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Carrel</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{root}/docs/{folder}/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="{root}/docs/{folder}/swagger-ui-bundle.js"></script>
<script src="{root}/docs/start.js" data-description="{root}/openapi.json"></script>
</body>
</html>
"""


def add_docs_pages(app: FastAPI) -> None:
    """Add the page and its files to ``app``, outside the OpenAPI document."""
    folder = f"swagger-ui-{json.loads((_STATIC / 'manifest.json').read_text())['version']}"

    async def serve_page(request: Request) -> HTMLResponse:
        root = escape(request.scope.get("root_path", "").rstrip("/"))
        return HTMLResponse(
            _PAGE_TEMPLATE.format(root=root, folder=folder),
            headers={"Content-Security-Policy": _CONTENT_SECURITY_POLICY},
        )

    app.add_api_route("/docs", serve_page, include_in_schema=False)
    # The version is in the path: such a file never changes. The page's own script has no version.
    _add_file(app, f"{folder}/swagger-ui.css", "public, max-age=31536000, immutable")
    _add_file(app, f"{folder}/swagger-ui-bundle.js", "public, max-age=31536000, immutable")
    _add_file(app, "start.js", "no-cache")


def _add_file(app: FastAPI, name: str, cache_control: str) -> None:
    path = _STATIC / name
    headers = {"Content-Type": _MEDIA_TYPES[path.suffix], "Cache-Control": cache_control}

    async def serve_file() -> FileResponse:
        return FileResponse(path, headers=headers)

    app.add_api_route(f"/docs/{name}", serve_file, include_in_schema=False)
