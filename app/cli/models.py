"""``carrel models``: download the weights of the embedded embedding model."""

from pathlib import Path
from typing import Annotated

import typer

from app.inference.embedding.weights import get_cached_weights_dir, pull_weights
from app.settings import get_user_cache_dir

app = typer.Typer(help="Download the weights of the embedded embedding model.", no_args_is_help=True)


@app.callback()
def models() -> None:
    """Download the weights of the embedded embedding model."""


@app.command()
def pull(
    target: Annotated[
        Path | None, typer.Option(help="Directory for the weights. Default: the user's cache directory.")
    ] = None,
) -> None:
    """Download the weights of all-MiniLM-L6-v2 (90 MB) and verify them.

    Weights that exist already are not downloaded again. To use another directory than the default, set
    CARREL_EMBEDDING_WEIGHTS_DIR for the service too.

    Example: carrel models pull

    Example: carrel models pull --target /srv/carrel/weights
    """
    directory = target or get_cached_weights_dir(get_user_cache_dir())
    pull_weights(directory)
    typer.echo(f"The weights are in {directory}.")
