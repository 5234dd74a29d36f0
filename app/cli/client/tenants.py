"""``carrel tenants``: tenants, for the operator."""

from typing import Annotated

import typer

from app.cli.client.options import AsJson, Key, Url, Yes, confirm, drop_unset, open_client, parse_json_object
from app.cli.client.output import print_item, print_list

app = typer.Typer(help="Tenants; needs the operator's key.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(help="The tenant's id.")]
QuotasAsJson = Annotated[str | None, typer.Option("--quotas", help="What it may use, as JSON.")]


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
    """Show a tenant with its quotas.

    Example: carrel tenants show ten_…
    """
    with open_client(url, key) as client:
        result = client.tenants.get(tenant)
    print_item(result, as_json=as_json)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Its name.")],
    quotas: QuotasAsJson = None,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Make one; its first key is printed now and never again.

    Example: carrel tenants create acme --quotas '{"documents": 10000}'
    """
    with open_client(url, key) as client:
        result = client.tenants.create(name, quotas=parse_json_object("--quotas", quotas) or None)
    print_item(result, as_json=as_json)


@app.command()
def update(
    tenant: Id,
    name: Annotated[str | None, typer.Option(help="Another name.")] = None,
    quotas: QuotasAsJson = None,
    sql_views: Annotated[
        bool | None,
        typer.Option("--sql-views/--no-sql-views", help="Whether its admins may publish knowledge bases as SQL views."),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Change a tenant's name, its quotas (null removes one), or whether it may have SQL views.

    --no-sql-views empties the views that exist at once. The service needs CARREL_SQL_VIEWS=true too.

    Example: carrel tenants update ten_… --sql-views
    """
    with open_client(url, key) as client:
        changes = drop_unset(name=name, quotas=parse_json_object("--quotas", quotas) or None, sql_views=sql_views)
        result = client.tenants.update(tenant, **changes)
    print_item(result, as_json=as_json)


@app.command()
def delete(tenant: Id, yes: Yes = False, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Delete everything that it has; prints the deletion, whose receipt says when nothing is left.

    Example: carrel tenants delete ten_… --yes
    """
    confirm(f"Delete the tenant {tenant} and everything it has?", yes)
    with open_client(url, key) as client:
        deletion = client.tenants.delete(tenant)
    print_item({"deletion": deletion}, as_json=as_json)
