// Lines between equal results of two columns, drawn where the screen is wide enough for the columns.
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

interface Line {
  chunk: string;
  from: number;
  to: number;
}

/** Return for each chunk the height of the middle of its result's head, below the top of the picture. */
function measureHits(column: Element | null, top: number): Map<string, number> {
  const heights = new Map<string, number>();
  for (const hit of column?.querySelectorAll<HTMLElement>("[data-chunk]") ?? []) {
    const box = (hit.querySelector(".hit-head") ?? hit).getBoundingClientRect();
    const chunk = hit.dataset.chunk ?? "";
    if (!heights.has(chunk)) heights.set(chunk, box.top + box.height / 2 - top);
  }
  return heights;
}

export function SearchLines({ frame }: { frame: RefObject<HTMLDivElement | null> }) {
  const picture = useRef<SVGSVGElement>(null);
  const [lines, setLines] = useState<Line[]>([]);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const { current } = frame;
    if (!current) return;
    const draw = () => {
      const box = picture.current?.getBoundingClientRect();
      if (!box) return;
      const [left, right] = [...current.querySelectorAll("[data-column]")].map((column) => measureHits(column, box.top));
      const drawn = [...(left ?? [])].flatMap(([chunk, from]) => {
        const to = right?.get(chunk);
        return to === undefined ? [] : [{ chunk, from, to }];
      });
      setWidth(box.width);
      setLines((before) => (JSON.stringify(before) === JSON.stringify(drawn) ? before : drawn));
    };
    draw();
    const observer = new ResizeObserver(draw);
    observer.observe(current);
    current.addEventListener("toggle", draw, true);
    return () => {
      observer.disconnect();
      current.removeEventListener("toggle", draw, true);
    };
  });
  return (
    <svg class="search-lines" ref={picture} aria-hidden="true">
      {lines.map(({ chunk, from, to }) => (
        <line key={chunk} class={from === to ? "same" : ""} x1={0} y1={from} x2={width} y2={to} />
      ))}
    </svg>
  );
}
