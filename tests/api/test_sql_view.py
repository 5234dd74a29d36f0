"""SQL views without the operator's permission."""

from tests.api.breakable_service import BreakableService
from tests.api.problems import assert_problem


def test_sql_view_without_operators_permission_is_409(fragile: BreakableService) -> None:
    admin, path = fragile.service.create_tenant().admin, "/v1/knowledge-bases/default/sql-view"
    assert_problem(admin.post(path), 409, "sql_views_disabled")
    assert_problem(admin.get(path), 404, "sql_view_not_found")
    assert admin.delete(path).status_code == 204
