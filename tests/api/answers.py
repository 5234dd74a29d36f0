"""A chat model that answers each kind of prompt, and a reader of the events of answers."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from harness.protocol_servers.chat import ReceivedTextRequest

Events = list[tuple[str, dict[str, Any]]]


def material(talk: ReceivedTextRequest) -> dict[str, Any]:
    """Return the documents, turns and question that the model received."""
    found: dict[str, Any] = json.loads(talk.messages[-1]["content"])
    return found


def kind(talk: ReceivedTextRequest) -> str:
    """Return the kind of prompt that the model received."""
    if talk.body.get("stream"):
        return "answer"
    given = material(talk)
    if "indices_of_related_messages" in talk.messages[0]["content"]:
        return "analysis"
    return "citations" if "answer" in given else "compression" if "sources" in given else "reformulation"


@dataclass
class Writer:
    """``ChatServer.reply`` of these tests: an answer for each kind of prompt."""

    answer: str = "It costs ninety euros."
    numbers: Any = field(default_factory=lambda: [1])
    citations: str | None = None
    understood: dict[str, Any] = field(default_factory=dict)
    compressed: str = "Ninety euros."

    def __call__(self, talk: ReceivedTextRequest) -> str:
        said = {
            "answer": self.answer,
            "citations": json.dumps({"numbers": self.numbers}) if self.citations is None else self.citations,
            "reformulation": json.dumps(self.understood),
            "analysis": json.dumps(self.understood),
            "compression": json.dumps({"text": self.compressed}),
        }
        return said[kind(talk)]


def events_of(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and data of each event of a stream."""
    name = ""
    for line in lines:
        key, _, value = line.partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, json.loads(value)


def streamed(client: httpx2.Client, path: str, **body: Any) -> Events:
    """Return all events of an answer."""
    with client.stream("POST", path, json=body) as reply:
        assert reply.status_code == 200, reply.read()
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert (reply.headers["cache-control"], reply.headers["x-accel-buffering"]) == ("no-store", "no")
        return list(events_of(reply.iter_lines()))


def names(events: Events) -> list[str]:
    """Return the names of the events; consecutive tokens count as one."""
    found = [name for name, _ in events]
    return [name for place, name in enumerate(found) if name != "token" or found[place - 1] != "token"]


def text_of(events: Events) -> str:
    """Return the text of the answer."""
    return "".join(data["text"] for name, data in events if name == "token")


def kinds_of(talks: Sequence[ReceivedTextRequest]) -> list[str]:
    """Return the kinds of the prompts that the model received, in order."""
    return [kind(talk) for talk in talks]
