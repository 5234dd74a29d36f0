"""``make bench NAME=table-questions``: ask for the rows of a table in every format, through every API.

Each format has a knowledge base with one file. Each row has a question. A question is answered if the first passage
contains the row. The passage is understandable if the names of all columns stand above the row.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from benchmarks.table_files import RENDERERS, PlainTable
from harness.processes import exit_on_sigterm, running_service, wait_until_ingested

MIN_FIRST = 38
ROWS = 40
KINDS = (
    "Hex bolt", "Washer", "Wing nut", "Cable tie", "Ball bearing", "Drive belt", "Fuse", "Spring", "Gasket", "Hinge",
)  # fmt: skip
MATERIALS = ("steel", "brass", "nylon", "zinc")
UNITS = ("piece", "box", "pair", "metre")


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Table with a question for each row, in the order of the rows."""

    name: str
    table: PlainTable
    questions: Sequence[str]


@dataclass(slots=True)
class Figures:
    """Number of questions whose row came first, and whose first passage has the column names above the row."""

    first: int = 0
    understandable: int = 0
    failed: list[str] = field(default_factory=list)


def build_price_list(rows: int = ROWS) -> QuestionSet:
    """Build a price list with a question for the price of each part."""
    cells = [
        [
            f"P-{number:04d}",
            f"{KINDS[number % len(KINDS)]} {MATERIALS[number % len(MATERIALS)]} M{4 + number % 9}",
            UNITS[number % len(UNITS)],
            f"{number * 37 % 90 + 1}.{number * 13 % 90 + 10}",
            str(number * 29 % 500),
        ]
        for number in range(1, rows + 1)
    ]
    table = PlainTable("Price list", ["Part", "Description", "Unit", "Price EUR", "Stock"], cells)
    return QuestionSet("price list", table, [f"price of part {row[0]}" for row in cells])


def build_staff_list(rows: int = ROWS) -> QuestionSet:
    """Build a list of employees, with a question for the telephone number of each."""
    first_names = ("Ada", "Bela", "Cleo", "Dora", "Emil", "Fritz", "Gita", "Hugo")
    last_names = ("Alder", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Larch", "Maple", "Oak", "Pine", "Rowan")
    departments = ("Sales", "Warehouse", "Accounts", "Workshop")
    cells = [
        [
            f"{first_names[number % 8]} {last_names[number % 11]}",
            departments[number % 4],
            f"B{number % 5}.{100 + number}",
            f"{4000 + 7 * number}",
            f"20{10 + number % 15}-0{1 + number % 9}-1{number % 10}",
        ]
        for number in range(rows)
    ]
    table = PlainTable("Employees", ["Name", "Department", "Room", "Extension", "Joined"], cells)
    return QuestionSet("employees", table, [f"What is the extension of {row[0]}?" for row in cells])


def build_tariff(rows: int = ROWS) -> QuestionSet:
    """Build a German tariff of months, with a question for the price of each month."""
    months = (
        "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
        "Dezember",
    )  # fmt: skip
    cells = [
        [
            f"{months[number % 12]} {2021 + number // 12}",
            f"{20 + number * 7 % 19},{10 + number * 3 % 80}",
            f"{5 + number * 5 % 7},{10 + number * 11 % 80}",
            f"{number * 17 % 300}",
        ]
        for number in range(rows)
    ]
    table = PlainTable("Stromtarif", ["Monat", "Arbeitspreis ct/kWh", "Grundpreis EUR", "Verbrauch kWh"], cells)
    return QuestionSet("tariff", table, [f"Arbeitspreis im {row[0]}" for row in cells])


def build_schedule(rows: int = ROWS) -> QuestionSet:
    """Build a French timetable with numeric ids, with a question for the departure of each train."""
    towns = ("Lyon", "Nantes", "Lille", "Tours", "Dijon", "Metz", "Nice", "Brest", "Reims")
    cells = [
        [
            str(86000 + 37 * number),
            towns[number % 9],
            towns[(number * 4 + 1) % 9],
            f"{5 + number % 17:02d}:{number * 7 % 60:02d}",
            str(1 + number % 12),
        ]
        for number in range(rows)
    ]
    table = PlainTable("Horaires", ["Train", "Départ de", "Arrivée à", "Heure de départ", "Voie"], cells)
    return QuestionSet("timetable", table, [f"heure de départ du train {row[0]}" for row in cells])


BUILDERS: Sequence[Callable[[int], QuestionSet]] = (build_price_list, build_staff_list, build_tariff, build_schedule)


def search_rest(client: httpx2.Client, kb: str, query: str) -> str:
    """Return the first passage of ``POST /v1/knowledge-bases/{kb}/search``."""
    reply = client.post(f"/v1/knowledge-bases/{kb}/search", json={"queries": [query], "top_k": 5})
    return _get_first(reply.raise_for_status().json()["results"], "text")


def search_agent(client: httpx2.Client, kb: str, query: str) -> str:
    """Return the first passage of ``POST /v1/agent-search``, with an agent that reads the knowledge base."""
    client.put(f"/v1/agents/reader-{kb}", json={"knowledge_bases": [kb]}).raise_for_status()
    body = {"agent_id": f"reader-{kb}", "messages": [{"role": "user", "content": query}]}
    passages: list[str] = client.post("/v1/agent-search", json=body).raise_for_status().json()
    return passages[0] if passages else ""


def search_dify(client: httpx2.Client, kb: str, query: str) -> str:
    """Return the first record of ``POST /dify/retrieval``."""
    body = {"knowledge_id": kb, "query": query, "retrieval_setting": {"top_k": 5, "score_threshold": 0.0}}
    return _get_first(client.post("/dify/retrieval", json=body).raise_for_status().json()["records"], "content")


def search_openai(client: httpx2.Client, kb: str, query: str) -> str:
    """Return the first result of OpenAI's search of a vector store."""
    reply = client.post(f"/openai/v1/vector_stores/{kb}/search", json={"query": query, "max_num_results": 5})
    results: list[dict[str, Any]] = reply.raise_for_status().json()["data"]
    return "\n".join(part["text"] for part in results[0]["content"]) if results else ""


def search_mcp(client: httpx2.Client, kb: str, query: str) -> str:
    """Return the first passage of the MCP tool ``search_knowledge``."""
    arguments = {"query": query, "knowledge_bases": [kb]}
    call = {"name": "search_knowledge", "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    result = client.post("/mcp", json=body, headers=headers).raise_for_status().json()["result"]
    return _get_first(result["structuredContent"]["results"], "text")


CHANNELS: Mapping[str, Callable[[httpx2.Client, str, str], str]] = {
    "REST": search_rest,
    "agent-search": search_agent,
    "Dify": search_dify,
    "OpenAI": search_openai,
    "MCP": search_mcp,
}


def has_row(passage: str, row: Sequence[str]) -> bool:
    """Return whether a line of a passage has all cells of a row."""
    return find_row(passage, row) >= 0


def find_row(passage: str, row: Sequence[str]) -> int:
    """Return the offset of the line with all cells of a row; -1 without such a line."""
    position = 0
    for line in passage.split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if all(any(_is_equal(cell, other) for other in cells) for cell in row):
            return position
        position += len(line) + 1
    return -1


def has_heads(passage: str, table: PlainTable, row: Sequence[str]) -> bool:
    """Return whether the names of all columns stand above a row of a passage."""
    above = passage[: max(0, find_row(passage, row))]
    return all(name in above for name in table.heads)


def upload(client: httpx2.Client, kb: str, name: str, data: bytes) -> None:
    """Create a knowledge base with one file, and wait until the file is searchable."""
    client.post("/v1/knowledge-bases", json={"name": kb}).raise_for_status()
    client.post(f"/v1/knowledge-bases/{kb}/documents", files={"file": (name, data)}).raise_for_status()
    wait_until_ingested(client, kb)


def measure(client: httpx2.Client, questions: QuestionSet, channel: str, kb: str) -> Figures:
    """Return the figures of all questions of a set through one API."""
    figures = Figures()
    for row, query in zip(questions.table.rows, questions.questions, strict=True):
        passage = CHANNELS[channel](client, kb, query)
        is_first = has_row(passage, row)
        is_understandable = has_heads(passage, questions.table, row)
        figures.first += is_first
        figures.understandable += is_understandable
        if not (is_first and is_understandable):
            figures.failed.append(f"{query!r}: {passage!r}")
    return figures


def measure_all(
    client: httpx2.Client, sets: Sequence[QuestionSet], formats: Sequence[str], channels: Sequence[str]
) -> Iterator[tuple[str, str, str, Figures]]:
    """Yield the name of the set, the format, the API and the figures."""
    for number, questions in enumerate(sets):
        for extension in formats:
            kb = f"tables-{number}-{extension}"
            upload(client, kb, f"table.{extension}", RENDERERS[extension](questions.table))
            for channel in channels:
                yield questions.name, extension, channel, measure(client, questions, channel, kb)


def main() -> None:
    """Print the figures of each format and API. The exit code is 1 if a figure misses its aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--formats", nargs="+", default=list(RENDERERS), choices=list(RENDERERS))
    parser.add_argument("--channels", nargs="+", default=list(CHANNELS), choices=list(CHANNELS))
    parser.add_argument("--all-sets", action="store_true", help="ask for employees, a tariff and a timetable too")
    parser.add_argument("--failures", action="store_true", help="print the passages of questions that failed")
    options = parser.parse_args()
    builders = BUILDERS if options.all_sets else BUILDERS[:1]
    sets = [build(options.rows) for build in builders]
    missed = False
    with running_service(None) as service, service.create_client() as client:
        print("| table | format | API | row first | heads above the row |\n| --- | --- | --- | --- | --- |")
        for name, extension, channel, figures in measure_all(client, sets, options.formats, options.channels):
            print(f"| {name} | {extension} | {channel} | {figures.first} | {figures.understandable} |", flush=True)
            if options.failures:
                print("\n".join(figures.failed[:3]), file=sys.stderr)
            missed |= figures.first < MIN_FIRST * options.rows // ROWS or figures.understandable < figures.first
    sys.exit(missed)


def _is_equal(expected: str, cell: str) -> bool:
    """Return whether a cell has the expected text, or the expected number: a sheet may show 11.5 for 11.50."""
    try:
        return expected == cell or float(expected) == float(cell)
    except ValueError:
        return False


def _get_first(results: Sequence[Mapping[str, Any]], name: str) -> str:
    return str(results[0][name]) if results else ""


if __name__ == "__main__":
    exit_on_sigterm()
    main()
