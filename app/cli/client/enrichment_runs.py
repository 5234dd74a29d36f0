"""``carrel kb enrichment``: enrichment of a knowledge base by a chat model."""

from typing import Annotated

import typer

from app.cli.client.options import AsJson, Key, Url, open_client
from app.cli.client.output import print_item

app = typer.Typer(help="Show, estimate and start the enrichment of documents by a chat model.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name or ID of the knowledge base.")]


@app.command()
def show(name: Name, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Show how many documents are enriched, and the calls and tokens of today.

    Example: carrel kb enrichment show handbook
    """
    with open_client(url, key) as client:
        result = client.knowledge_bases.enrichment(name)
    print_item(result, as_json=as_json)


@app.command()
def estimate(name: Name, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Estimate the calls and tokens for the documents that are not enriched. No model is called.

    Example: carrel kb enrichment estimate handbook
    """
    with open_client(url, key) as client:
        result = client.knowledge_bases.estimate_enrichment(name)
    print_item(result, as_json=as_json)


@app.command()
def run(name: Name, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Start the enrichment of the documents that are not enriched. Estimate the cost first.

    The knowledge base needs the setting: carrel kb update handbook '{"enrichment": {"enabled": true}}'

    Example: carrel kb enrichment run handbook
    """
    with open_client(url, key) as client:
        enqueued = client.knowledge_bases.run_enrichment(name)
    print_item({"enqueued": enqueued}, as_json=as_json)
