"""Routes of the console: one page for all screens, and the files of the bundle in ``static``."""

import json
from hashlib import sha256
from html import escape
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import FileResponse, Response

STATIC = Path(__file__).with_name("static")
# First parts of the paths of screens. `console/src/app.tsx` has the same names.
SCREENS = (
    "knowledge-bases",
    "create-knowledge-base",
    "agents",
    "golden-sets",
    "evaluations",
    "search",
    "jobs",
    "api-keys",
    "audit-events",
    "deletions",
    "operator",
)
_MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
# Trusted Types stop every assignment of a string to a property that parses HTML or loads a script.
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "require-trusted-types-for 'script'; trusted-types 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_PAGE = """<!DOCTYPE html>
<html lang="en" data-root="{root}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Carrel</title>
<link rel="icon" type="image/svg+xml" href="{root}/console/{icon}">
<link rel="stylesheet" href="{root}/console/{style}">
<script type="module" src="{root}/console/{script}"></script>
</head>
<body>
<div id="app"></div>
<noscript>The console needs JavaScript. The API works without it: see /docs.</noscript>
</body>
</html>
"""


def add_console_routes(app: FastAPI) -> None:
    """Add the console to an application. Paths that no screen has stay with the API, which answers 404.

    Args:
        app: The application.
    """
    manifest = json.loads((STATIC / "manifest.json").read_text())

    async def serve_page(request: Request) -> Response:
        root = escape(request.scope.get("root_path", "").rstrip("/"))
        return _create_page_response(request, _PAGE.format(root=root, **manifest["page"]))

    app.add_route("/", serve_page, include_in_schema=False)
    for screen in SCREENS:
        app.add_route(f"/{screen}", serve_page, include_in_schema=False)
        app.add_route(f"/{screen}/{{path:path}}", serve_page, include_in_schema=False)
    for name in manifest["files"]:
        _add_file(app, name)


def _create_page_response(request: Request, page: str) -> Response:
    """Return the page, or 304 if the browser has this version of the page."""
    tag = f'"{sha256(page.encode()).hexdigest()[:32]}"'
    headers = {"Content-Security-Policy": _CONTENT_SECURITY_POLICY, "Cache-Control": "no-cache", "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(page, media_type="text/html; charset=utf-8", headers=headers)


def _add_file(app: FastAPI, name: str) -> None:
    """Add a file of the bundle. Its name contains its hash, so the file never changes."""
    path = STATIC / name
    headers = {
        "Content-Type": _MEDIA_TYPES[path.suffix],
        "Cache-Control": "public, max-age=31536000, immutable",
    }

    async def serve_file(_: Request) -> FileResponse:
        return FileResponse(path, headers=headers)

    app.add_route(f"/console/{name}", serve_file, include_in_schema=False)
