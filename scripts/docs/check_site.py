"""``python -m scripts.docs.check_site FOLDER``: check that the pages of a built site load nothing from other hosts.

Scripts, styles, fonts and images must be part of the site. Links that a reader follows may lead anywhere.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

_RESOURCES = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
_REMOTE = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
_CSS_ADDRESS = re.compile(r"(?:url\(|@import)\s*['\"]?\s*((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)


class _ResourceParser(HTMLParser):
    """Collector of the addresses that a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the address of a resource."""
        address = dict(attrs).get(_RESOURCES.get(tag, ""))
        if address:
            self.addresses.append(address)


def list_remote_resources(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each remote resource of a site as (page, address)."""
    for page in sorted(folder.rglob("*.html")):
        parser = _ResourceParser()
        parser.feed(page.read_text("utf-8"))
        yield from ((str(page), address) for address in parser.addresses if _REMOTE.match(address))
    for style in sorted(folder.rglob("*.css")):
        yield from ((str(style), address) for address in _CSS_ADDRESS.findall(style.read_text("utf-8")))


def main() -> int:
    """Print the remote resources of the site and return 1 if it has any."""
    folder = Path(sys.argv[1])
    remote = list(list_remote_resources(folder))
    for page, address in remote:
        print(f"{page}: loads {address} from another host")
    print(f"{len(list(folder.rglob('*.html')))} pages in {folder}/, {len(remote)} remote resources")
    return 1 if remote else 0


if __name__ == "__main__":
    sys.exit(main())
