"""``carrel search``: the best passages for a question."""

from typing import Annotated, Any

import typer

from app.cli.client.options import AsJson, Key, Url, drop_unset, open_client, parse_json_object
from app.cli.client.output import print_json, print_table

MAX_SHOWN_CHARACTERS = 400


def search(
    query: Annotated[str, typer.Argument(help="What is looked for.")],
    kb: Annotated[list[str] | None, typer.Option(help="A knowledge base; may be repeated. Else all.")] = None,
    top_k: Annotated[int | None, typer.Option(min=1, max=500, help="Passages. Else the knowledge base's own.")] = None,
    strategy: Annotated[str | None, typer.Option(help="dense, lexical, hybrid, …")] = None,
    filter: Annotated[str | None, typer.Option(help="A filter, as JSON.")] = None,
    expand: Annotated[str | None, typer.Option(help="window, section or parent.")] = None,
    full_text: Annotated[bool, typer.Option("--full-text", help="Show the full text of each chunk.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Search, best passages first.

    Status 1: the service refuses. Status 2: something is wrong with the options or the connection.

    Example: carrel search "How long is parental leave?" --kb handbook

    Example: carrel search leave --filter '{"year": {"gte": 2025}}' --json
    """
    with open_client(url, key) as client:
        parsed = parse_json_object("--filter", filter) if filter is not None else None
        options: Any = drop_unset(top_k=top_k, strategy=strategy, filter=parsed, expand=expand)
        response = client.search(query, knowledge_bases=kb, **options)
    if as_json:
        print_json(response)
        return
    for warning in response["warnings"]:
        typer.echo(f"carrel: {warning['message']}", err=True)
    if not response["results"]:
        typer.echo("Nothing found.")
        return
    rows = [
        [number, f"{result['score']:.3f}", result["citation"], _format_text(result["text"], full_text=full_text)]
        for number, result in enumerate(response["results"], 1)
    ]
    print_table(["#", "score", "where", "passage"], rows)


def _format_text(text: str, *, full_text: bool) -> str:
    if full_text:
        return text
    words = " ".join(text.split())
    return words if len(words) <= MAX_SHOWN_CHARACTERS else f"{words[:MAX_SHOWN_CHARACTERS]}…"
