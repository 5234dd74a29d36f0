"""Cost curve of the scale benchmark: latency and bytes by number of chunks, as a table and as an SVG chart."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, PANEL_HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 260, 70, 150, 46, 46
NAME_HEIGHT = 16
GRID_STYLE = 'stroke="#9ca3af" stroke-opacity="0.4"'
BYTES_PER_MB = 2**20
COLOURS = ("#2f7ed8", "#d9822b", "#2e9e6b", "#a15ac4")
# Grey is readable on white and on black. The colour scheme of the viewer, if known, gives more contrast.
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #6b7280 } .title { font-size: 15px; font-weight: 600 }
@media (prefers-color-scheme: dark) { text { fill: #d1d5db } }
@media (prefers-color-scheme: light) { text { fill: #374151 } }"""


@dataclass(frozen=True, slots=True)
class Curve:
    """Curve with the label at its end and its points (chunks, value). All values are above 0."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """Chart panel with one pair of logarithmic axes."""

    title: str
    curves: Sequence[Curve]


@dataclass(frozen=True, slots=True)
class CostPoint:
    """Measured point of the cost curve: medians in milliseconds, bytes by part, and total Postgres memory in MB."""

    chunks: int
    vector_index: str
    hybrid_ms: float
    dense_ms: float
    lexical_ms: float
    sizes: dict[str, int]
    memory_mb: float

    @property
    def disk_mb(self) -> float:
        """MB of all tables and indexes."""
        return sum(self.sizes.values()) / BYTES_PER_MB

    @property
    def vectors_mb(self) -> float:
        """MB of the vectors and their HNSW index."""
        return (self.sizes["vectors"] + self.sizes.get("hnsw", 0)) / BYTES_PER_MB


def format_curve_table(points: Sequence[CostPoint]) -> str:
    """Format the points as a Markdown table with one row for each number of chunks."""
    lines = [
        "| chunks | vectors | hybrid p50 ms | dense ms | BM25 ms | disk MB | HNSW part MB | Postgres' memory MB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for item in points:
        lines.append(
            f"| {item.chunks} | {item.vector_index} | {item.hybrid_ms:.1f} | {item.dense_ms:.1f} | "
            f"{item.lexical_ms:.1f}"
            f" | {item.disk_mb:.0f} | {item.sizes.get('hnsw', 0) / BYTES_PER_MB:.0f} | {item.memory_mb:.0f} |"
        )
    return "\n".join(lines)


def build_panels(points: Sequence[CostPoint]) -> list[CurvePanel]:
    """Build the panels of latency and of memory."""
    latency = [
        Curve("hybrid search", [(item.chunks, item.hybrid_ms) for item in points]),
        Curve("dense retriever", [(item.chunks, item.dense_ms) for item in points]),
        Curve("BM25 retriever", [(item.chunks, item.lexical_ms) for item in points]),
    ]
    memory = [
        Curve("disk", [(item.chunks, item.disk_mb) for item in points]),
        Curve("vectors, HNSW", [(item.chunks, item.vectors_mb) for item in points]),
        Curve("Postgres' memory", [(item.chunks, item.memory_mb) for item in points]),
    ]
    return [CurvePanel("Latency, p50 in ms", latency), CurvePanel("Disk and memory, MB", memory)]


def render_svg(panels: Sequence[CurvePanel]) -> str:
    """Render the panels as an SVG, one below the other, over the same numbers of chunks."""
    height = PANEL_HEIGHT * len(panels)
    body = "\n".join(
        f'<g transform="translate(0 {PANEL_HEIGHT * number})">\n{_render_panel(panel)}\n</g>'
        for number, panel in enumerate(panels)
    )
    titles = "; ".join(panel.title for panel in panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{titles}">\n'
        f"<style>{STYLE}\n</style>\n{body}\n</svg>\n"
    )


def _render_panel(panel: CurvePanel) -> str:
    xs = [x for line in panel.curves for x, _ in line.points]
    ys = [y for line in panel.curves for _, y in line.points]
    across = _create_scale(_find_decades(xs), LEFT, WIDTH - RIGHT)
    up = _create_scale(_find_decades(ys), PANEL_HEIGHT - BOTTOM, TOP)
    parts = [f'<text class="title" x="{LEFT}" y="24">{panel.title}</text>']
    for power in range(*_get_powers(_find_decades(xs))):
        x = across(10.0**power)
        parts.append(f'<line {GRID_STYLE} x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{PANEL_HEIGHT - BOTTOM}"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{PANEL_HEIGHT - BOTTOM + 20}" text-anchor="middle">{_format_short(10.0**power)}</text>'  # noqa: E501
        )
    for power in range(*_get_powers(_find_decades(ys))):
        y = up(10.0**power)
        parts.append(f'<line {GRID_STYLE} x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_format_short(10.0**power)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{PANEL_HEIGHT - 6}" text-anchor="middle">chunks in the knowledge base</text>')
    ends = _adjust_labels([up(line.points[-1][1]) for line in panel.curves])
    for line, colour, end in zip(panel.curves, COLOURS, ends, strict=False):
        parts += _render_curve(line, colour, [(across(x), up(y)) for x, y in line.points], end)
    return "\n".join(parts)


def _render_curve(line: Curve, colour: str, places: Sequence[tuple[float, float]], end: float) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>']
    for (x, y), (chunks, value) in zip(places, line.points, strict=True):
        reported = f"{line.name}, {_format_short(chunks)} chunks: {value:.4g}"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>{reported}</title></circle>')
    last = line.points[-1][1]
    name = f"{line.name} {last:,.0f}" if last >= 10 else f"{line.name} {last:.1f}"
    parts.append(f'<text x="{places[-1][0] + 10:.1f}" y="{end + 4:.1f}" style="fill:{colour}">{name}</text>')
    return parts


def _find_decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the exponents of the powers of ten that enclose the values."""
    first, last = math.floor(math.log10(min(values)) + 1e-9), math.ceil(math.log10(max(values)) - 1e-9)
    return first, max(last, first + 1)


def _get_powers(decades: tuple[int, int]) -> tuple[int, int]:
    return decades[0], decades[1] + 1


def _create_scale(decades: tuple[int, int], start: float, end: float) -> Callable[[float], float]:
    """Create a function that maps a value to its position on a logarithmic axis."""
    first, last = decades
    return lambda value: start + (end - start) * (math.log10(value) - first) / (last - first)


def _adjust_labels(places: Sequence[float]) -> list[float]:
    """Adjust the positions of labels so that no labels overlap."""
    moved = list(places)
    order = sorted(range(len(moved)), key=moved.__getitem__)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + NAME_HEIGHT)
    return moved


def _format_short(value: float) -> str:
    """Format 1000 as 1k and 1,000,000 as 1M."""
    for size, sign in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"
