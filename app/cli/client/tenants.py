"""``carrel tenants``: management of tenants by the operator."""

from typing import Annotated

import typer

from app.cli.client.options import AsJson, Key, Url, Yes, confirm, drop_unset, open_client, parse_json_object
from app.cli.client.output import print_item, print_list

app = typer.Typer(help="List, create, change and delete tenants, with the operator key.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(help="ID of the tenant (ten_…).")]
QuotasAsJson = Annotated[str | None, typer.Option("--quotas", help="Quotas, as a JSON object.")]


@app.command("list")
def list_tenants(as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """List all tenants.

    Example: carrel tenants list --url http://127.0.0.1:8000 --key "$CARREL_OPERATOR_KEY"
    """
    with open_client(url, key) as client:
        results = list(client.tenants.list())
    print_list(results, ["id", "name", "created_at"], as_json=as_json)


@app.command()
def show(tenant: Id, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Show one tenant with its quotas.

    Example: carrel tenants show ten_…
    """
    with open_client(url, key) as client:
        result = client.tenants.get(tenant)
    print_item(result, as_json=as_json)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the tenant.")],
    quotas: QuotasAsJson = None,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Create a tenant and its first API key. The secret of the key is printed only now.

    Example: carrel tenants create acme

    Example: carrel tenants create acme --quotas '{"documents": 10000}'
    """
    with open_client(url, key) as client:
        result = client.tenants.create(name, quotas=parse_json_object("--quotas", quotas) or None)
    print_item(result, as_json=as_json)


@app.command()
def update(
    tenant: Id,
    name: Annotated[str | None, typer.Option(help="New name.")] = None,
    quotas: QuotasAsJson = None,
    sql_views: Annotated[
        bool | None,
        typer.Option("--sql-views/--no-sql-views", help="Whether admins of the tenant may create SQL views."),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Change the name, the quotas or the right to SQL views of a tenant.

    The value null removes a quota. --no-sql-views empties existing SQL views immediately. SQL views also require
    CARREL_SQL_VIEWS=true in the settings of the service.

    Example: carrel tenants update ten_… --quotas '{"documents": 20000, "chunks": null}'

    Example: carrel tenants update ten_… --sql-views
    """
    with open_client(url, key) as client:
        changes = drop_unset(name=name, quotas=parse_json_object("--quotas", quotas) or None, sql_views=sql_views)
        result = client.tenants.update(tenant, **changes)
    print_item(result, as_json=as_json)


@app.command()
def delete(tenant: Id, yes: Yes = False, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Delete a tenant and everything it has.

    Its API keys are refused immediately; its contents are removed in the background. The command prints the ID of the
    deletion, whose receipt shows when nothing is left.

    Example: carrel tenants delete ten_… --yes
    """
    confirm(f"Delete the tenant {tenant} and everything it has?", yes)
    with open_client(url, key) as client:
        deletion = client.tenants.delete(tenant)
    print_item({"deletion": deletion}, as_json=as_json)
