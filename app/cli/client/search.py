"""``carrel search``: search of knowledge bases."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from app.cli.client.options import AsJson, Key, Url, drop_unset, open_client, parse_json_object
from app.cli.client.output import print_json, print_table
from app.errors import InvalidInputError

MAX_SHOWN_CHARACTERS = 400


def search(
    query: Annotated[str, typer.Argument(help="Question or words to search for.")],
    kb: Annotated[
        list[str] | None, typer.Option(help="Knowledge base; may be repeated. Default: all knowledge bases.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, max=500, help="Number of passages. Default: the setting of the knowledge base.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(help="Search strategy: dense, lexical, hybrid, … Default: the setting of the knowledge base."),
    ] = None,
    score_threshold: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto",
            help="Minimum similarity of a passage, from -1 to 1, or auto for the calibrated threshold of the model.",
        ),
    ] = None,
    filter: Annotated[str | None, typer.Option(help="Metadata filter as JSON.")] = None,
    expand: Annotated[str | None, typer.Option(help="Expansion of each passage: window, section or parent.")] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(help="Addition to each passage; may be repeated: entities, parent_summaries, keywords."),
    ] = None,
    collapse: Annotated[
        bool, typer.Option("--collapse", help="Print identical passages of a knowledge base once, with all documents.")
    ] = False,
    full_text: Annotated[bool, typer.Option("--full-text", help="Print the full text of each passage.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Search knowledge bases and print the best passages.

    Status 1: the service refuses the request. Status 2: an option or the connection is wrong.

    Example: carrel search "How long is parental leave?" --kb handbook

    Example: carrel search "Good morning!" --score-threshold auto

    Example: carrel search "Who wrote the music?" --include entities --include keywords

    Example: carrel search "opening hours" --collapse

    Example: carrel search leave --filter '{"year": {"gte": 2025}}' --json
    """
    with open_client(url, key) as client:
        parsed = parse_json_object("--filter", filter) if filter is not None else None
        threshold = None if score_threshold is None else parse_score_threshold(score_threshold)
        options: Any = drop_unset(
            top_k=top_k,
            strategy=strategy,
            score_threshold=threshold,
            filter=parsed,
            expand=expand,
            include=include,
            collapse=collapse or None,
        )
        response = client.search(query, knowledge_bases=kb, **options)
    if as_json:
        print_json(response)
        return
    for warning in response["warnings"]:
        typer.echo(f"carrel: {warning['message']}", err=True)
    if not response["results"]:
        typer.echo("Nothing found. Try other words, or list the documents: carrel documents list")
        return
    rows = [
        [number, f"{result['score']:.3f}", result["citation"], _format_passage(result, full_text=full_text)]
        for number, result in enumerate(response["results"], 1)
    ]
    print_table(["#", "score", "where", "passage"], rows)


def parse_score_threshold(text: str) -> float | Literal["auto"]:
    """Return the value of ``--score-threshold``. Raises InvalidInputError."""
    if text == "auto":
        return "auto"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not -1 <= value <= 1:
        raise InvalidInputError("--score-threshold takes a number from -1 to 1, or auto")
    return value


def _format_passage(result: Mapping[str, Any], *, full_text: bool) -> str:
    """Return the text of a result, with a sentence for each requested addition."""
    names = [entity["name"] for entity in result.get("entities") or ()]
    keywords = [item["keyword"] for item in result.get("keywords") or ()]
    summaries = [item["summary"] for item in result.get("parent_summaries") or () if item["summary"]]
    sources = list(dict.fromkeys(item["source"] for item in result.get("duplicates") or ()))
    additions = [("Entities", names), ("Keywords", keywords), ("Summaries", summaries), ("Also in", sources)]
    parts = [f"[{label}: {'; '.join(texts)}]" for label, texts in additions if texts]
    return " ".join([_format_text(result["text"], full_text=full_text), *parts])


def _format_text(text: str, *, full_text: bool) -> str:
    if full_text:
        return text
    words = " ".join(text.split())
    return words if len(words) <= MAX_SHOWN_CHARACTERS else f"{words[:MAX_SHOWN_CHARACTERS]}…"
