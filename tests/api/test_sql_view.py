"""Where the operator does not allow it, nothing is published."""

from tests.api.conftest import Fragile
from tests.api.problems import problem


def test_it_is_off_unless_the_operator_allows_it(fragile: Fragile) -> None:
    admin, path = fragile.service.new_tenant().admin, "/v1/knowledge-bases/default/publication"
    problem(admin.post(path), 409, "publication_off")
    problem(admin.get(path), 404, "publication_not_found")
    assert admin.delete(path).status_code == 204
