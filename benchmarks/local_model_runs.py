"""The service with one of the local models, for benchmarks that compare models."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from app.inference.embedding.local_models import DEFAULT_MODEL, LOCAL_MODELS
from app.inference.embedding.weights import find_weights
from harness.processes import RunningService, running_service


def parse_names(text: str) -> list[str]:
    """Return the names of models in a list with commas; "all" means every local model, the default first.

    Raises:
        ValueError: A name is unknown, or its weights are not on this machine.
    """
    every = sorted(LOCAL_MODELS, key=lambda name: name != DEFAULT_MODEL)
    names = every if text == "all" else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in LOCAL_MODELS:
            raise ValueError(f"there is no local model {name!r}; use {', '.join(every)}")
        if find_directory(name) is None:
            raise ValueError(f"the weights of {name} are not on this machine; `carrel models pull {name}` fetches them")
    return names


def find_directory(name: str) -> Path | None:
    """Return the directory with the files of a local model, or None."""
    return find_weights(LOCAL_MODELS[name], None, Path.home() / ".cache")


@contextmanager
def service_with_model(name: str) -> Iterator[RunningService]:
    """Run ``carrel serve`` with a local model on an empty data directory until the block ends."""
    with running_service(None, settings={"CARREL_EMBEDDING_MODEL": name}) as service:
        yield service


def join_row(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def format_head(names: Sequence[str]) -> str:
    """Return the head of a Markdown table."""
    return f"{join_row(names)}\n{join_row(['---'] * len(names))}"
