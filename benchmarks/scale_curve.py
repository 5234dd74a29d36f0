"""The cost curve, latency and bytes over the number of chunks, as a table and as an SVG with logarithmic axes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, PANEL, LEFT, RIGHT, TOP, BOTTOM = 760, 260, 70, 150, 46, 46
NAME_HEIGHT = 16
GRID = 'stroke="#9ca3af" stroke-opacity="0.4"'
MB = 2**20
COLOURS = ("#2f7ed8", "#d9822b", "#2e9e6b", "#a15ac4")
# Grey reads on white and on black; a viewer that tells its scheme gets more contrast.
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #6b7280 } .title { font-size: 15px; font-weight: 600 }
@media (prefers-color-scheme: dark) { text { fill: #d1d5db } }
@media (prefers-color-scheme: light) { text { fill: #374151 } }"""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: what it is called at its end, and its points (chunks, value), all above 0."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Point:
    """One size on the cost curve: medians in milliseconds, bytes by part, and memory of all of Postgres in MB."""

    chunks: int
    vector_index: str
    hybrid: float
    dense: float
    lexical: float
    sizes: dict[str, int]
    memory: float

    @property
    def disk(self) -> float:
        """MB of all tables and indexes."""
        return sum(self.sizes.values()) / MB

    @property
    def vectors(self) -> float:
        """MB of the dense lane, with its HNSW."""
        return (self.sizes["vectors"] + self.sizes.get("hnsw", 0)) / MB


def curve_table(points: Sequence[Point]) -> str:
    """One line a size."""
    lines = [
        "| chunks | vectors | hybrid p50 ms | dense lane | BM25 lane | disk MB | of it HNSW | Postgres' memory MB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in points:
        lines.append(
            f"| {one.chunks} | {one.vector_index} | {one.hybrid:.1f} | {one.dense:.1f} | {one.lexical:.1f}"
            f" | {one.disk:.0f} | {one.sizes.get('hnsw', 0) / MB:.0f} | {one.memory:.0f} |"
        )
    return "\n".join(lines)


def panels(points: Sequence[Point]) -> list[Panel]:
    """What is drawn."""
    latency = [
        Line("hybrid search", [(one.chunks, one.hybrid) for one in points]),
        Line("dense lane", [(one.chunks, one.dense) for one in points]),
        Line("BM25 lane", [(one.chunks, one.lexical) for one in points]),
    ]
    memory = [
        Line("disk", [(one.chunks, one.disk) for one in points]),
        Line("vectors, HNSW", [(one.chunks, one.vectors) for one in points]),
        Line("Postgres' memory", [(one.chunks, one.memory) for one in points]),
    ]
    return [Panel("Latency, p50 in ms", latency), Panel("Disk and memory, MB", memory)]


def curve_svg(panels: Sequence[Panel]) -> str:
    """One panel below the other, over the same chunks."""
    height = PANEL * len(panels)
    body = "\n".join(
        f'<g transform="translate(0 {PANEL * number})">\n{_panel(panel)}\n</g>' for number, panel in enumerate(panels)
    )
    titles = "; ".join(panel.title for panel in panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{titles}">\n'
        f"<style>{STYLE}\n</style>\n{body}\n</svg>\n"
    )


def _panel(panel: Panel) -> str:
    xs = [x for line in panel.lines for x, _ in line.points]
    ys = [y for line in panel.lines for _, y in line.points]
    across = _scale(_decades(xs), LEFT, WIDTH - RIGHT)
    up = _scale(_decades(ys), PANEL - BOTTOM, TOP)
    parts = [f'<text class="title" x="{LEFT}" y="24">{panel.title}</text>']
    for power in range(*_range(_decades(xs))):
        x = across(10.0**power)
        parts.append(f'<line {GRID} x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{PANEL - BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{PANEL - BOTTOM + 20}" text-anchor="middle">{_short(10.0**power)}</text>')
    for power in range(*_range(_decades(ys))):
        y = up(10.0**power)
        parts.append(f'<line {GRID} x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_short(10.0**power)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{PANEL - 6}" text-anchor="middle">chunks in the knowledge base</text>')
    ends = _apart([up(line.points[-1][1]) for line in panel.lines])
    for line, colour, end in zip(panel.lines, COLOURS, ends, strict=False):
        parts += _line(line, colour, [(across(x), up(y)) for x, y in line.points], end)
    return "\n".join(parts)


def _line(line: Line, colour: str, places: Sequence[tuple[float, float]], end: float) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>']
    for (x, y), (chunks, value) in zip(places, line.points, strict=True):
        told = f"{line.name}, {_short(chunks)} chunks: {value:.4g}"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>{told}</title></circle>')
    last = line.points[-1][1]
    name = f"{line.name} {last:,.0f}" if last >= 10 else f"{line.name} {last:.1f}"
    parts.append(f'<text x="{places[-1][0] + 10:.1f}" y="{end + 4:.1f}" style="fill:{colour}">{name}</text>')
    return parts


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Powers of ten around the values."""
    first, last = math.floor(math.log10(min(values)) + 1e-9), math.ceil(math.log10(max(values)) - 1e-9)
    return first, max(last, first + 1)


def _range(decades: tuple[int, int]) -> tuple[int, int]:
    return decades[0], decades[1] + 1


def _scale(decades: tuple[int, int], start: float, end: float) -> Callable[[float], float]:
    """From a value to its place on a logarithmic axis."""
    first, last = decades
    return lambda value: start + (end - start) * (math.log10(value) - first) / (last - first)


def _apart(places: Sequence[float]) -> list[float]:
    """The places of names, far enough from each other to be read."""
    moved = list(places)
    order = sorted(range(len(moved)), key=moved.__getitem__)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + NAME_HEIGHT)
    return moved


def _short(value: float) -> str:
    """1000 as 1k; small values as they are."""
    for size, sign in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"
