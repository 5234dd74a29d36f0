"""Error responses of the OpenAPI document: one per status, with the codes that an operation may answer with."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from app.api.api_docs.problem_codes import list_codes
from app.api.http import example_values
from app.api.http.problems import get_http_status
from app.errors import AppError

PROBLEM_MEDIA_TYPE = "application/problem+json"
STATUS_DESCRIPTIONS = {
    400: "The request is not valid, or asks for something that Carrel does not do.",
    401: "The request has no valid API key or token.",
    403: "The role or the restrictions of the API key do not allow the request.",
    404: "The resource does not exist, or the API key may not see it.",
    408: "The request took too long to arrive.",
    409: "The state of the resource or of an earlier request with the `Idempotency-Key` does not allow the request.",
    412: "The resource has changed since it was read.",
    413: "The body is over a size limit.",
    415: "The media type is not supported.",
    416: "The requested range is outside of the file.",
    422: "The request is not valid. `errors` names the faults.",
    429: "A rate limit or a quota is used up. `Retry-After` has the seconds to wait.",
    431: "The address or a header of the request is too long.",
    500: "Something went wrong inside Carrel. The log has the request id.",
    503: "A dependency does not answer, or the service is busy. `Retry-After` has the seconds to wait.",
}
# Codes that no exception of the service has: of the server, the framework, and of files that cannot be parsed.
OTHER_PROBLEMS: Mapping[str, tuple[int, str]] = {
    "corrupt": (422, "The file is damaged, or its parser crashed. Upload an intact copy."),
    "encrypted": (422, "The file is encrypted. Upload a copy without a password."),
    "issuer_unavailable": (503, "The identity provider does not return its keys. Try again."),
    "headers_too_large": (431, "The address or a header of the request is too long."),
    "internal": (500, "Something went wrong inside Carrel. Search the log for the request id."),
    "no_text": (422, "The file has no text. Scans need OCR data or a vision model."),
    "parser_memory": (422, "Parsing needs more memory than the limit. Split the file."),
    "parser_timeout": (422, "Parsing takes longer than the limit. Split the file."),
    "range": (416, "There are 48211 bytes."),
    "request_timeout": (408, "The request took too long to arrive."),
    "too_large": (413, "The body is over a limit."),
    "too_many_connections": (429, "The client has too many open connections."),
    "too_many_pages": (422, "The file has more pages than the limit. Split the file."),
    "unsupported_content_encoding": (
        415,
        "The content encoding cannot be decoded. Send the body as gzip or uncompressed.",
    ),
    "unsupported_media_type": (415, "No parser reads files of this type."),
}
DescribeResponse = Callable[[int, str, str], tuple[str, dict[str, Any], Any]]
"""Function from status, code and message to a media type, a schema and an example of the error body."""


def describe_problem(status: int, code: str, detail: str) -> tuple[str, dict[str, Any], Any]:
    """Return media type, schema and example of a problem (RFC 9457).

    Args:
        status: HTTP status.
        code: Error code.
        detail: Message for people.
    """
    example: dict[str, Any] = {
        "type": f"urn:carrel:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "request_id": example_values.REQUEST_ID,
    }
    if status == 422:
        example["errors"] = [{"loc": ["body"], "msg": detail}]
    return PROBLEM_MEDIA_TYPE, {"$ref": "#/components/schemas/Problem"}, example


def find_problem(code: str) -> tuple[int, str]:
    """Return HTTP status and message of an error code.

    Raises:
        KeyError: No exception has this code.
    """
    if code in OTHER_PROBLEMS:
        return OTHER_PROBLEMS[code]
    for error in _list_errors(AppError):
        if error.code == code and (status := get_http_status(error())) != 500:
            return status, " ".join(error().message.split())
    raise KeyError(code)


def _list_errors(kind: type[AppError]) -> Iterator[type[AppError]]:
    """Yield the classes below an error class that have their own code."""
    for error in kind.__subclasses__():
        if "code" in vars(error):
            yield error
        yield from _list_errors(error)


def add_problem_responses(
    operation: dict[str, Any],
    examples: dict[str, Any],
    *,
    describe_response: DescribeResponse = describe_problem,
    statuses: Mapping[int, int] | None = None,
    prefix: str = "",
) -> None:
    """Replace the error responses of an operation by one response for each status of its error codes.

    Args:
        operation: Operation of the OpenAPI document; changed in place.
        examples: Examples of the document's components; this function adds the examples that it refers to.
        describe_response: Form of the error body.
        statuses: Statuses of this API by the statuses of the native API that they replace.
        prefix: Prefix of the names of the examples, for an API with another form of the error body.
    """
    codes_by_status: defaultdict[int, list[str]] = defaultdict(list)
    for code in list_codes(operation):
        status, detail = find_problem(code)
        status = (statuses or {}).get(status, status)
        codes_by_status[status].append(code)
        media_type, schema, example = describe_response(status, code, detail)
        examples[prefix + code] = {"summary": code, "value": example}
    responses = operation["responses"]
    for status in [status for status in responses if status.startswith(("4", "5")) or status == "default"]:
        # A response with an own example is no problem, such as an error of MCP.
        if not any("example" in content for content in responses[status].get("content", {}).values()):
            del responses[status]
    for status, codes in sorted(codes_by_status.items()):
        named = {code: {"$ref": f"#/components/examples/{prefix}{code}"} for code in codes}
        responses[str(status)] = {
            "description": f"{STATUS_DESCRIPTIONS[status]} Codes: {', '.join(f'`{code}`' for code in codes)}.",
            "content": {media_type: {"schema": schema, "examples": named}},
        }
