"""``carrel models``: the weights of the embedded model."""

from pathlib import Path
from typing import Annotated

import typer

from app.inference.embedding.weights import get_cached_weights_dir, pull_weights
from app.settings import get_user_cache_dir

app = typer.Typer(help="Manage the weights of the embedded embedding model.", no_args_is_help=True)


@app.callback()
def models() -> None:
    """Manage the weights of the embedded embedding model."""


@app.command()
def pull(
    target: Annotated[Path | None, typer.Option(help="Directory; by default the user's cache.")] = None,
) -> None:
    """Fetch the weights of all-MiniLM-L6-v2 (90 MB) and check them; does nothing where they are there.

    Example: carrel models pull
    """
    directory = target or get_cached_weights_dir(get_user_cache_dir())
    pull_weights(directory)
    typer.echo(f"The weights are in {directory}.")
