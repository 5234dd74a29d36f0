"""``carrel kb``: knowledge bases."""

from typing import Annotated

import typer

from app.cli.client import enrichment_runs, entity_corrections, sql_view
from app.cli.client.options import AsJson, AsYaml, Key, Url, Yes, confirm, drop_unset, open_client, parse_json_object
from app.cli.client.output import print_item, print_list, print_yaml

app = typer.Typer(help="List, create, change, reindex and delete knowledge bases.", no_args_is_help=True)
app.add_typer(sql_view.app, name="sql-view")
app.add_typer(entity_corrections.app, name="entities")
app.add_typer(enrichment_runs.app, name="enrichment")
Name = Annotated[str, typer.Argument(help="Name or ID of the knowledge base.")]
Settings = Annotated[str | None, typer.Option(help="More settings, as a JSON object.")]


@app.command("list")
def list_knowledge_bases(as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """List all knowledge bases that the API key may read.

    Example: carrel kb list
    """
    with open_client(url, key) as client:
        results = list(client.knowledge_bases.list())
    print_list(results, ["name", "id", "title", "language", "created_at"], as_json=as_json)


@app.command()
def show(name: Name, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Show a knowledge base with its settings and the state of its search index.

    Example: carrel kb show handbook
    """
    with open_client(url, key) as client:
        result = client.knowledge_bases.get(name)
    print_item(result, as_json=as_json)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name: lower-case letters, digits, - and _.")],
    title: Annotated[str | None, typer.Option(help="Title for people.")] = None,
    language: Annotated[str | None, typer.Option(help="Language of the documents, or auto. Default: english.")] = None,
    settings: Settings = None,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Create a knowledge base.

    Example: carrel kb create handbook

    Example: carrel kb create handbook --language english --settings '{"chunking": {"max_tokens": 300}}'
    """
    with open_client(url, key) as client:
        options = {**parse_json_object("--settings", settings), **drop_unset(title=title, language=language)}
        result = client.knowledge_bases.create(name, **options)
    print_item(result, as_json=as_json)


@app.command()
def update(
    name: Name,
    settings: Annotated[str, typer.Argument(help="Settings to change, as a JSON object.")],
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Change settings of a knowledge base. Fields left out of retrieval keep their values.

    Example: carrel kb update handbook '{"retrieval": {"top_k": 8}}'
    """
    with open_client(url, key) as client:
        result = client.knowledge_bases.update(name, **parse_json_object("SETTINGS", settings))
    print_item(result, as_json=as_json)


@app.command()
def reindex(name: Name, settings: Settings = None, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Rebuild the search index, optionally with another embedding model or another chunking.

    Searches use the live index until the new one replaces it.

    Example: carrel kb reindex handbook

    Example: carrel kb reindex handbook --settings '{"chunking": {"max_tokens": 300}}'
    """
    with open_client(url, key) as client:
        result = client.knowledge_bases.reindex(name, **parse_json_object("--settings", settings))
    print_item(result, as_json=as_json)


@app.command()
def delete(name: Name, yes: Yes = False, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Delete a knowledge base and all its documents.

    It disappears from searches immediately; its contents are removed in the background. The command prints the ID of
    the deletion, whose receipt shows when nothing is left.

    Example: carrel kb delete handbook --yes
    """
    confirm(f"Delete the knowledge base {name} and all its documents?", yes)
    with open_client(url, key) as client:
        deletion = client.knowledge_bases.delete(name)
    print_item({"deletion": deletion}, as_json=as_json)


@app.command("external-search")
def show_external_search(
    name: Name,
    base_url: Annotated[
        str | None, typer.Option(help="Address at which the platform reaches the service. Default: the --url.")
    ] = None,
    as_json: AsJson = False,
    as_yaml: AsYaml = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Show the block with which an agent platform searches a knowledge base by the external-search contract.

    Example: carrel kb external-search handbook --yaml --base-url https://carrel.example.com
    """
    with open_client(url, key) as client:
        result = client.knowledge_bases.get_external_search(name, **drop_unset(base_url=base_url))
    if as_yaml:
        print_yaml(result)
    else:
        print_item(result, as_json=as_json)
