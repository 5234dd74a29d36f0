// Images of the pages of a chunk, with the lines of the chunk boxed.
import { useEffect, useState } from "preact/hooks";
import { ApiError, requestBlob } from "../api/client";
import type { ChunkDetailOut, LineBoxOut, PageSizeOut } from "../api/schema";
import { t } from "../i18n";
import { ErrorState, LoadingState } from "./states";

const SCALE = 1.5;

export function ChunkPages({ path, chunk }: { path: string; chunk: ChunkDetailOut }) {
  if (chunk.page_sizes.length === 0) return null;
  const boxes = addTexts(chunk);
  return (
    <div class="page-images">
      {chunk.page_sizes.map((size) => (
        <PageImage
          key={size.page}
          path={`${path}/pages/${size.page}.png`}
          size={size}
          boxes={boxes.filter(({ page }) => page === size.page)}
        />
      ))}
    </div>
  );
}

type TextBox = LineBoxOut & { text: string | null };

/** Give each box the text of its line. The API has no text of boxes, so no box gets one unless the numbers agree. */
function addTexts({ text, boxes }: ChunkDetailOut): TextBox[] {
  const lines = text.split("\n").filter((line) => line.trim());
  const isExact = lines.length === boxes.length;
  return boxes.map((box, index) => ({ ...box, text: isExact ? (lines[index] ?? null) : null }));
}

function PageImage({ path, size, boxes }: { path: string; size: PageSizeOut; boxes: TextBox[] }) {
  const [address, setAddress] = useState<string | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    const controller = new AbortController();
    let created: string | null = null;
    setAddress(null);
    setError(null);
    requestBlob(path, { query: { scale: SCALE }, signal: controller.signal }).then(
      (image) => {
        if (controller.signal.aborted) return;
        created = URL.createObjectURL(image);
        setAddress(created);
      },
      (failure: unknown) => {
        if (!controller.signal.aborted && failure instanceof ApiError) setError(failure);
      },
    );
    return () => {
      controller.abort();
      if (created) URL.revokeObjectURL(created);
    };
  }, [path]);

  // The service is older than the page images.
  if (error?.code === "not_found") return null;
  if (error) return <ErrorState error={error} />;
  if (!address) return <LoadingState />;
  return (
    <figure class="page-image">
      <img src={address} width={size.width} height={size.height} alt={t("page.alt", { number: size.page })} />
      <svg viewBox={`0 0 ${size.width} ${size.height}`} aria-hidden="true">
        {boxes.map(({ x0, y0, x1, y1 }, index) => (
          <rect key={index} x={x0} y={y0} width={x1 - x0} height={y1 - y0} />
        ))}
        {boxes.map(
          ({ x0, y0, x1, y1, text }, index) =>
            text && (
              <text
                key={index}
                x={x0}
                y={y0 + (y1 - y0) * 0.8}
                font-size={(y1 - y0) * 0.8}
                textLength={x1 - x0}
                lengthAdjust="spacingAndGlyphs"
              >
                {text}
              </text>
            ),
        )}
      </svg>
    </figure>
  );
}
