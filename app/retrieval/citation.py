"""Citation of a result, for people."""


def format_citation(source: str, slide: int | None, pages: tuple[int | None, int | None]) -> str:
    """Return a citation: the source with its slide or pages.

    Args:
        source: Name of the document.
        slide: Slide; None if the format has no slides.
        pages: First and last page; None if the format has no pages.
    """
    page, page_end = pages
    if slide is not None:
        return f"{source}, slide {slide}"
    if page is None:
        return source
    return f"{source}, p. {page}" if page_end in (None, page) else f"{source}, pp. {page}\u2013{page_end}"
