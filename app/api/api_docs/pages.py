"""Pages of the API documentation: Swagger UI on ``/docs``, Redoc on ``/redoc``, with every file from this service."""

import json
from html import escape
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse

_STATIC = Path(__file__).with_name("static")
_MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
# Scripts and styles come from files of this service alone. The style sheet of Swagger UI has images as data.
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src {styles}; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Style elements that the bundle of Redoc inserts: empty elements, which scripts fill with rules, and the element of its
# scrollbar.
_REDOC_STYLE_HASHES = (
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=' 'sha256-QMIg+bpjm3JdElJ388KYke01izlUW0UoNOeKjpMxdgc='"
)
_SWAGGER_UI_PAGE = """<!DOCTYPE html>
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
_REDOC_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Carrel API reference</title>
<link rel="icon" href="data:,">
</head>
<body>
<div id="redoc"></div>
<script src="{root}/docs/{folder}/redoc.standalone.js"></script>
<script src="{root}/docs/start-redoc.js" data-description="{root}/openapi.json"></script>
</body>
</html>
"""


def add_docs_pages(app: FastAPI) -> None:
    """Add the pages and their files to an application, outside of its OpenAPI document."""
    manifest = json.loads((_STATIC / "manifest.json").read_text())
    folders = {name: f"{name}-{package['version']}" for name, package in manifest.items()}

    async def serve_swagger_ui(request: Request) -> HTMLResponse:
        page = _SWAGGER_UI_PAGE.format(root=_get_root(request), folder=folders["swagger-ui"])
        return _create_page_response(page, styles="'self'")

    async def serve_redoc(request: Request) -> HTMLResponse:
        page = _REDOC_PAGE.format(root=_get_root(request), folder=folders["redoc"])
        return _create_page_response(page, styles=_REDOC_STYLE_HASHES)

    app.add_api_route("/docs", serve_swagger_ui, include_in_schema=False)
    app.add_api_route("/redoc", serve_redoc, include_in_schema=False)
    # The path of a library's file contains its version, so the file never changes. The pages' other scripts have no
    # version.
    for name in ("swagger-ui.css", "swagger-ui-bundle.js"):
        _add_file(app, f"{folders['swagger-ui']}/{name}", "public, max-age=31536000, immutable")
    _add_file(app, f"{folders['redoc']}/redoc.standalone.js", "public, max-age=31536000, immutable")
    _add_file(app, "start.js", "no-cache")
    _add_file(app, "start-redoc.js", "no-cache")


def _get_root(request: Request) -> str:
    """Return the path below which a proxy serves the application, for attributes of HTML."""
    return escape(request.scope.get("root_path", "").rstrip("/"))


def _create_page_response(page: str, *, styles: str) -> HTMLResponse:
    policy = _CONTENT_SECURITY_POLICY.format(styles=styles)
    return HTMLResponse(page, headers={"Content-Security-Policy": policy})


def _add_file(app: FastAPI, name: str, cache_control: str) -> None:
    path = _STATIC / name
    headers = {"Content-Type": _MEDIA_TYPES[path.suffix], "Cache-Control": cache_control}

    async def serve_file() -> FileResponse:
        return FileResponse(path, headers=headers)

    app.add_api_route(f"/docs/{name}", serve_file, include_in_schema=False)
