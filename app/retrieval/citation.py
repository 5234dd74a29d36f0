"""Citation of a result, for people."""

from app.documents.locator import Locator

WEB_PAGE = "text/html"


def get_cited_name(source: str, media_type: str | None, locator: Locator) -> str:
    """Return the name of a document in citations: the web address of a web page, else the name of the source.

    Args:
        source: Name of the document.
        media_type: Media type of the document.
        locator: Place of the cited text.
    """
    return locator.url if locator.url is not None and media_type == WEB_PAGE else source


def format_citation(name: str, locator: Locator) -> str:
    """Return a citation: the name of a document with slide, pages, or sheet and rows.

    Args:
        name: Name of the document.
        locator: Place of the cited text.
    """
    if locator.slide is not None:
        return f"{name}, slide {locator.slide}"
    if locator.page is not None:
        return f"{name}, {_format_range('p. ', 'pp. ', (locator.page, locator.page_end or locator.page))}"
    place = name if locator.sheet is None else f"{name} \u203a {locator.sheet}"
    return place if locator.rows is None else f"{place}, {_format_range('row ', 'rows ', locator.rows)}"


def _format_range(singular: str, plural: str, numbers: tuple[int, int]) -> str:
    first, last = numbers
    return f"{singular}{first}" if first == last else f"{plural}{first}\u2013{last}"
