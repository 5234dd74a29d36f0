"""``carrel kb sql-view``: SQL view of a knowledge base, for a platform that reads a pgvector table itself."""

from typing import Annotated

import typer

from app.cli.client.options import AsJson, AsYaml, Key, Url, Yes, confirm, drop_unset, open_client
from app.cli.client.output import print_item, print_yaml

app = typer.Typer(help="Create, show and delete the SQL view of a knowledge base.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name or id of the knowledge base.")]


@app.command()
def create(
    name: Name,
    collection: Annotated[
        str | None, typer.Option(help="Name of the view. Default: the name of the knowledge base.")
    ] = None,
    content_key: Annotated[str | None, typer.Option(help="Name of the metadata key that holds the text.")] = None,
    as_json: AsJson = False,
    as_yaml: AsYaml = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Create the SQL view of a knowledge base and its database role. The password is printed only now.

    With --yaml, the connection block goes to the standard output, and the password to the standard error.

    Example: carrel kb sql-view create handbook --collection handbook
    """
    with open_client(url, key) as client:
        result = client.knowledge_bases.create_sql_view(name, collection=collection, content_key=content_key)
    if as_yaml:
        print_yaml(result["connection"])
        typer.echo(f"Password: {result['password']}", err=True)
    else:
        print_item(result, as_json=as_json)
    typer.echo("Keep the password: Carrel does not store it and cannot show it again.", err=True)


@app.command()
def show(
    name: Name,
    provider: Annotated[str | None, typer.Option(help="Provider of the embedding model on the platform.")] = None,
    password_variable: Annotated[
        str | None, typer.Option(help="Environment variable of the platform that has the password.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Number of rows that the platform reads.")] = None,
    as_json: AsJson = False,
    as_yaml: AsYaml = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Show the SQL view of a knowledge base. Platforms can read it when its state is ready.

    Example: carrel kb sql-view show handbook --json

    Example: carrel kb sql-view show handbook --yaml --provider openai
    """
    options = drop_unset(provider=provider, password_variable=password_variable, top_k=top_k)
    with open_client(url, key) as client:
        result = client.knowledge_bases.get_sql_view(name, **options)
    if as_yaml:
        print_yaml(result["connection"])
    else:
        print_item(result, as_json=as_json)


@app.command()
def delete(name: Name, yes: Yes = False, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Delete the SQL view and its database role; the view is empty immediately.

    Example: carrel kb sql-view delete handbook --yes
    """
    confirm(f"Delete the SQL view of {name}?", yes)
    with open_client(url, key) as client:
        client.knowledge_bases.delete_sql_view(name)
    print_item({"knowledge_base": name, "sql_view": "deleted"}, as_json=as_json)
