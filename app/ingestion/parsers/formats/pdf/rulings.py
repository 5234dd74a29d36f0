"""Ruling lines of a PDF page, and the grids that they form."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

MAX_SEGMENTS = 20_000
MAX_LINES = 500
"""Maximum number of segments and of whole lines in one direction. A page with more has a drawing, not a table."""

MAX_CONTENT_BYTES = 4_000_000
MIN_CONTENT_BYTES = 2000
"""Size in bytes from which the content of a page has its lines itself, not in the forms that it uses."""

MAX_THIN_RATIO = 0.05
MIN_LENGTH = 4.0
MAX_THICKNESS = 3.0
_NEAR = 2.5
"""Distance in points below which lines are one line, and below which ends touch a line."""

_LINE_OPERATOR = re.compile(rb" l\s")


class Segment(NamedTuple):
    """Horizontal or vertical line.

    Attributes:
        at: Height of a horizontal line, or x coordinate of a vertical line, in points.
        start: Smaller coordinate of its ends.
        end: Larger coordinate of its ends.
    """

    at: float
    start: float
    end: float


@dataclass(slots=True)
class Rulings:
    """Horizontal and vertical lines of a page, in the coordinates of its text.

    Attributes:
        horizontal: Horizontal lines.
        vertical: Vertical lines.
    """

    horizontal: list[Segment] = field(default_factory=list)
    vertical: list[Segment] = field(default_factory=list)

    def add_line(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Add a line if it is horizontal or vertical and long enough."""
        if abs(y1 - y0) < 1 and abs(x1 - x0) >= MIN_LENGTH:
            self.horizontal.append(Segment((y0 + y1) / 2, min(x0, x1), max(x0, x1)))
        elif abs(x1 - x0) < 1 and abs(y1 - y0) >= MIN_LENGTH:
            self.vertical.append(Segment((x0 + x1) / 2, min(y0, y1), max(y0, y1)))

    def add_rectangle(self, x0: float, y0: float, x1: float, y1: float, *, is_stroked: bool) -> None:
        """Add the edges of a stroked rectangle, or a thin filled rectangle as a line."""
        if y1 - y0 <= MAX_THICKNESS:
            self.add_line(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2)
        elif x1 - x0 <= MAX_THICKNESS:
            self.add_line((x0 + x1) / 2, y0, (x0 + x1) / 2, y1)
        elif is_stroked:
            self.add_line(x0, y0, x1, y0)
            self.add_line(x0, y1, x1, y1)
            self.add_line(x0, y0, x0, y1)
            self.add_line(x1, y0, x1, y1)

    def add_path(self, path: dict[str, Any]) -> None:
        """Add the lines of a path of PyMuPDF. Paths beyond the maximum number of segments are ignored."""
        if len(self.horizontal) + len(self.vertical) > MAX_SEGMENTS:
            return
        is_stroked = "s" in (path.get("type") or "")
        for item in path.get("items", ())[:MAX_SEGMENTS]:
            if item[0] == "re":
                self.add_rectangle(*item[1], is_stroked=is_stroked)
            elif item[0] == "l" and is_stroked:
                self.add_line(*item[1], *item[2])
            elif item[0] == "qu" and is_stroked:
                points = [item[1][index] for index in (0, 1, 3, 2, 0)]
                for first, second in pairwise(points):
                    self.add_line(*first, *second)


@dataclass(frozen=True, slots=True)
class RuledGrid:
    """RuledGrid of ruling lines.

    Attributes:
        xs: Coordinates of the vertical lines, from left to right.
        ys: Coordinates of the horizontal lines, from top to bottom.
        has_right: Whether a line is drawn at the right of a cell, by row and column.
        has_bottom: Whether a line is drawn below a cell, by row and column.
    """

    xs: Sequence[float]
    ys: Sequence[float]
    has_right: Sequence[Sequence[bool]]
    has_bottom: Sequence[Sequence[bool]]


def read_rulings(page: Any) -> Rulings:
    """Read the ruling lines of a page.

    Args:
        page: Page of PyMuPDF.

    Returns:
        The lines; none if the page has more content or more lines than a page with tables.
    """
    rulings = Rulings()
    content = page.read_contents()
    if len(content) > MAX_CONTENT_BYTES or (len(content) > MIN_CONTENT_BYTES and not _has_crossing_lines(content)):
        return rulings
    page.get_cdrawings(callback=rulings.add_path)
    if len(rulings.horizontal) + len(rulings.vertical) > MAX_SEGMENTS:
        return Rulings()
    return rulings


def _has_crossing_lines(content: bytes) -> bool:
    """Return whether the content of a page draws lines in two directions, in the coordinates of its operators.

    The test is much faster than drawing the page. Areas that clip other content are no lines. A page that uses images
    or forms passes the test, because forms may have the lines.
    """
    if b" Do" in content:
        return True
    wide = tall = 0
    for width, height in _iter_extents(content):
        wide += height <= MAX_THIN_RATIO * width
        tall += width <= MAX_THIN_RATIO * height
        if min(width, height) > MAX_THIN_RATIO * max(width, height):
            wide, tall = wide + 1, tall + 1
        if wide + tall >= 3 and wide and tall:
            return True
    return False


def _iter_extents(content: bytes) -> Iterator[tuple[float, float]]:
    """Yield the width and the height of the rectangles and of the straight lines in the content of a page."""
    pieces = content.split(b" re", MAX_LINES)
    for piece, following in pairwise(pieces):
        if not following[:4].lstrip().startswith(b"W"):
            *_, width, height = [0.0, 0.0, *_read_operands(piece)]
            yield abs(width), abs(height)
    for piece in _LINE_OPERATOR.split(content, MAX_LINES)[:-1]:
        operands = _read_operands(piece)
        if len(operands) == 4:
            x0, y0, x1, y1 = operands
            if min(abs(x1 - x0), abs(y1 - y0)) <= MAX_THIN_RATIO * max(abs(x1 - x0), abs(y1 - y0)):
                yield abs(x1 - x0), abs(y1 - y0)


def _read_operands(piece: bytes) -> list[float]:
    """Return the last four numbers before an operator; none if there are fewer."""
    words = [word for word in piece[-100:].split() if word not in (b"m", b"l")][-4:]
    try:
        return [float(word) for word in words]
    except ValueError:
        return []


def find_grids(rulings: Rulings) -> list[RuledGrid]:
    """Find the grids of lines that cross or touch each other, with at least two rows and two columns.

    Args:
        rulings: Lines of a page.

    Returns:
        The grids, in any order.
    """
    horizontal, vertical = _join_segments(rulings.horizontal), _join_segments(rulings.vertical)
    if not 2 <= len(horizontal) <= MAX_LINES or not 1 <= len(vertical) <= MAX_LINES:
        return []
    grids = []
    for rows, columns in _find_components(horizontal, vertical):
        grid = _build_grid([horizontal[index] for index in rows], [vertical[index] for index in columns])
        if grid is not None:
            grids.append(grid)
    return grids


def _join_segments(segments: Sequence[Segment]) -> list[Segment]:
    """Join the segments of a line that is drawn in pieces, such as the edges of neighbouring cells."""
    levels: list[list[Segment]] = []
    for segment in sorted(segments):
        if levels and segment.at - levels[-1][-1].at < _NEAR and segment.at - levels[-1][0].at < 2 * _NEAR:
            levels[-1].append(segment)
        else:
            levels.append([segment])
    joined: list[Segment] = []
    for level in levels:
        at = sum(segment.at for segment in level) / len(level)
        start, end = level[0].start, level[0].end
        for segment in sorted(level, key=lambda item: item.start):
            if segment.start > end + _NEAR:
                joined.append(Segment(at, start, end))
                start, end = segment.start, segment.end
            start, end = min(start, segment.start), max(end, segment.end)
        joined.append(Segment(at, start, end))
    return joined


def _find_components(horizontal: Sequence[Segment], vertical: Sequence[Segment]) -> list[tuple[list[int], list[int]]]:
    """Return the indexes of the lines of each connected group of lines."""
    parents = list(range(len(horizontal) + len(vertical)))

    def find(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    places = [line.at for line in vertical]
    for number, line in enumerate(horizontal):
        for other in range(bisect_left(places, line.start - _NEAR), bisect_right(places, line.end + _NEAR)):
            if vertical[other].start - _NEAR <= line.at <= vertical[other].end + _NEAR:
                parents[find(number)] = find(len(horizontal) + other)
    groups: dict[int, tuple[list[int], list[int]]] = {}
    for index in range(len(parents)):
        group = groups.setdefault(find(index), ([], []))
        if index < len(horizontal):
            group[0].append(index)
        else:
            group[1].append(index - len(horizontal))
    return [group for group in groups.values() if len(group[0]) >= 2 and group[1]]


def _build_grid(horizontal: Sequence[Segment], vertical: Sequence[Segment]) -> RuledGrid | None:
    xs, ys = _list_places(vertical, horizontal), _list_places(horizontal, vertical)
    if len(xs) < 3 or len(ys) < 3:
        return None
    has_right = [[False] * (len(xs) - 1) for _ in range(len(ys) - 1)]
    has_bottom = [[False] * (len(xs) - 1) for _ in range(len(ys) - 1)]
    for line in vertical:
        column = _find_nearest(xs, line.at) - 1
        if column >= 0:
            for row in _list_covered(ys, line):
                has_right[row][column] = True
    for line in horizontal:
        row = _find_nearest(ys, line.at) - 1
        if row >= 0:
            for column in _list_covered(xs, line):
                has_bottom[row][column] = True
    return RuledGrid(xs, ys, has_right, has_bottom)


def _list_places(lines: Sequence[Segment], crossing: Sequence[Segment]) -> list[float]:
    """Return the places of lines, and the outer ends of the lines that cross them if those are apart."""
    places = {line.at for line in lines} | {min(line.start for line in crossing), max(line.end for line in crossing)}
    result: list[float] = []
    for place in sorted(places):
        if not result or place - result[-1] > 2 * _NEAR:
            result.append(place)
    return result


def _find_nearest(places: Sequence[float], place: float) -> int:
    index = bisect_left(places, place)
    candidates = range(max(0, index - 1), min(len(places), index + 1))
    return min(candidates, key=lambda candidate: abs(places[candidate] - place))


def _list_covered(places: Sequence[float], line: Segment) -> list[int]:
    """Return the indexes of the ranges between neighbouring places whose middle a line covers."""
    first = max(0, bisect_left(places, line.start) - 1)
    last = min(len(places) - 1, bisect_right(places, line.end) + 1)
    return [
        index
        for index in range(first, last)
        if line.start - _NEAR <= (places[index] + places[index + 1]) / 2 <= line.end + _NEAR
    ]
