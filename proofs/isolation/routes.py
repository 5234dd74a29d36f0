"""List of the endpoints of the application and of its mounted applications."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi.routing import iter_route_contexts
from pydantic import TypeAdapter
from starlette.routing import BaseRoute, Mount


@dataclass(frozen=True)
class RouteEndpoint:
    """Method and path of an endpoint, with the names of its query parameters and of all fields of its body."""

    method: str
    path: str
    query_fields: frozenset[str] = frozenset()
    body_fields: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def list_endpoints(routes: Sequence[BaseRoute], prefix: str = "") -> Iterator[RouteEndpoint]:
    """Yield every endpoint. A mounted application without visible routes is one endpoint with the method ``*``."""
    for context in iter_route_contexts(routes):
        route: Any = context.original_route
        if isinstance(route, Mount):
            path = prefix + route.path
            if route.routes:
                yield from list_endpoints(route.routes, path)
            else:
                yield RouteEndpoint("*", path)
            continue
        methods = set(context.methods or ["GET"])
        for method in sorted(methods - {"OPTIONS", "HEAD"}):
            yield RouteEndpoint(method, prefix + (context.path or ""), *_list_field_names(route))


def _list_field_names(route: Any) -> tuple[frozenset[str], frozenset[str]]:
    if not hasattr(route, "dependant"):
        return frozenset(), frozenset()
    query = frozenset(
        field.alias for dependant in _flatten_dependants(route.dependant) for field in dependant.query_params
    )
    body: set[str] = set()
    if route.body_field is not None:
        body |= set(iter_properties(TypeAdapter(route.body_field.field_info.annotation).json_schema()))
    body |= set(iter_properties((route.openapi_extra or {}).get("requestBody", {})))
    return query, frozenset(body)


def _flatten_dependants(dependant: Any) -> Iterator[Any]:
    yield dependant
    for inner in dependant.dependencies:
        yield from _flatten_dependants(inner)


def iter_properties(schema: object) -> Iterator[str]:
    """Yield the names of all properties at all levels of a JSON schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for inner in schema.values():
            yield from iter_properties(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from iter_properties(inner)
