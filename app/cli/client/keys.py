"""``carrel keys``: API keys of a tenant."""

from typing import Annotated, Any, Literal

import typer

from app.cli.client.options import AsJson, Key, Url, Yes, confirm, drop_unset, open_client
from app.cli.client.output import print_item, print_list

app = typer.Typer(
    help="List, create, rotate and revoke the API keys of a tenant.",
    no_args_is_help=True,
)
Id = Annotated[str, typer.Argument(help="ID of the API key (key_…).")]


@app.command("list")
def list_keys(as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """List all valid API keys, without their secrets.

    Example: carrel keys list
    """
    with open_client(url, key) as client:
        results = list(client.api_keys.list())
    print_list(results, ["id", "name", "role", "hint", "expires_at", "last_used_at"], as_json=as_json)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name that says what the key is for.")],
    role: Annotated[Literal["admin", "writer", "reader"], typer.Option(help="Role of the key.")] = "reader",
    kb: Annotated[
        list[str] | None, typer.Option(help="Restrict the key to this knowledge base; may be repeated.")
    ] = None,
    user_id: Annotated[
        str | None, typer.Option(help="Restrict the key to the documents of the tenant and of this user.")
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option(help="Expiry time (RFC 3339), for example 2027-01-01T00:00:00Z.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Create an API key. Its secret is printed only now.

    Example: carrel keys create website --role reader --kb handbook
    """
    settings: Any = drop_unset(knowledge_bases=kb, user_id=user_id, expires_at=expires_at)
    with open_client(url, key) as client:
        result = client.api_keys.create(name, role, **settings)
    print_item(result, as_json=as_json)


@app.command()
def rotate(
    api_key: Id,
    overlap_seconds: Annotated[
        int | None, typer.Option(min=0, help="Time, in seconds, that the old key stays valid.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Rotate an API key: create a replacement with the same settings.

    The old key expires after --overlap-seconds. The secret of the new key is printed only now.

    Example: carrel keys rotate key_… --overlap-seconds 3600
    """
    with open_client(url, key) as client:
        result = client.api_keys.rotate(api_key, overlap_seconds=overlap_seconds)
    print_item(result, as_json=as_json)


@app.command()
def revoke(api_key: Id, yes: Yes = False, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Revoke an API key. Requests with it are refused immediately.

    Example: carrel keys revoke key_… --yes
    """
    confirm(f"Revoke the API key {api_key}?", yes)
    with open_client(url, key) as client:
        client.api_keys.revoke(api_key)
    print_item({"revoked": api_key}, as_json=as_json)
