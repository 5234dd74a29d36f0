"""Maximum number of rows of a page. It also carries the request to count all rows of the list, and their number."""


class PageLimit(int):
    """Maximum number of rows of a page. With ``needs_count``, the query of the page sets ``total``.

    ``total`` is the number of all rows of the list. It stays None if nothing counted, or if the count took too long.
    """

    needs_count: bool = False
    total: int | None = None


def create_page_limit(rows: int, *, needs_count: bool) -> PageLimit:
    """Return the limit of a page. ``needs_count`` requests the number of all rows of the list."""
    limit = PageLimit(rows)
    limit.needs_count = needs_count
    return limit
