"""SQL views without the operator's permission."""

from tests.api.breakable_service import BreakableService
from tests.api.problems import problem


def test_it_is_off_unless_the_operator_allows_it(fragile: BreakableService) -> None:
    admin, path = fragile.service.create_tenant().admin, "/v1/knowledge-bases/default/sql-view"
    problem(admin.post(path), 409, "sql_views_disabled")
    problem(admin.get(path), 404, "sql_view_not_found")
    assert admin.delete(path).status_code == 204
