"""``carrel kb entities``: entities of a knowledge base, and their corrections."""

from typing import Annotated, Any

import typer

from app.cli.client.options import AsJson, Key, Url, drop_unset, open_client
from app.cli.client.output import print_item, print_list

app = typer.Typer(help="List, show, merge and split the entities of a knowledge base.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name or ID of the knowledge base.")]
EntityId = Annotated[str, typer.Argument(help="ID of the entity (ent_…).")]


@app.command("list")
def list_entities(
    name: Name,
    prefix: Annotated[str | None, typer.Option(help="Beginning of the entity's name.")] = None,
    q: Annotated[str | None, typer.Option(help="Words of the entity's name, each from its beginning.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """List the entities that readable chunks name, by name.

    Example: carrel kb entities list handbook

    Example: carrel kb entities list handbook --q warbeck
    """
    filters: Any = drop_unset(prefix=prefix, q=q)
    with open_client(url, key) as client:
        results = list(client.knowledge_bases.entities(name, **filters))
    print_list(results, ["id", "name", "type", "chunks", "titles"], as_json=as_json)


@app.command()
def show(name: Name, entity: EntityId, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Show an entity with its aliases, its first chunks and its neighbours.

    Example: carrel kb entities show handbook ent_3f9a01c7
    """
    with open_client(url, key) as client:
        result = client.knowledge_bases.entity(name, entity)
    print_item(result, as_json=as_json)


@app.command()
def merge(
    name: Name,
    entities: Annotated[list[str], typer.Argument(help="IDs of the entities to merge.")],
    into: Annotated[str, typer.Option(help="ID of the entity that remains.")],
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Let entities count as another in the whole knowledge base. Merging again changes nothing.

    Example: carrel kb entities merge handbook ent_b20c44de --into ent_3f9a01c7
    """
    with open_client(url, key) as client:
        result = client.knowledge_bases.merge_entities(name, entities, into)
    print_item({"entity": result}, as_json=as_json)


@app.command()
def split(
    name: Name,
    entity: EntityId,
    documents: Annotated[list[str], typer.Argument(help="IDs of the documents that mean another entity.")],
    to: Annotated[str, typer.Option(help="Name of the other entity.")],
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Let an entity mean another in some documents. A split disappears with its document.

    Example: carrel kb entities split handbook ent_3f9a01c7 doc_… --to "Stephen Warbeck (the painter)"
    """
    with open_client(url, key) as client:
        result = client.knowledge_bases.split_entity(name, entity, documents, to)
    print_item({"entity": result}, as_json=as_json)


@app.command("corrections")
def list_corrections(name: Name, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """List the merges and splits of a knowledge base, newest first.

    Example: carrel kb entities corrections handbook
    """
    with open_client(url, key) as client:
        results = list(client.knowledge_bases.corrections(name))
    print_list(results, ["id", "entity", "target", "document", "name", "created_at"], as_json=as_json)


@app.command()
def undo(
    name: Name,
    correction: Annotated[str, typer.Argument(help="ID of the correction (cor_…).")],
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Undo a merge or a split. Entities that a later merge moved along stay with its target.

    Example: carrel kb entities undo handbook cor_…
    """
    with open_client(url, key) as client:
        client.knowledge_bases.undo_correction(name, correction)
    print_item({"undone": correction}, as_json=as_json)
