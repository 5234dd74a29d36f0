// The chunks of a preview as text. A preview has the pages of a chunk, but not its lines on them.
import { listRanges, nameRange } from "../api/preview";
import type { PreviewChunkOut, PreviewOut } from "../api/schema";
import { t, tn } from "../i18n";
import { formatPlace } from "../screens/document";
import { Badge } from "./parts";
import { EmptyState } from "./states";

export function PreviewChunks({ name, preview, other }: { name: string; preview: PreviewOut; other: PreviewOut | null }) {
  if (preview.chunks.length === 0) return <EmptyState title={t("preview.noChunks")} />;
  const shared = listRanges(other);
  const { chunks, total_chunks: total } = preview;
  return (
    <>
      <p class="muted">
        {chunks.length < total ? t("preview.firstChunks", { shown: chunks.length, total }) : tn("chunks.count", total)}
      </p>
      <div class="chunk-frame" tabIndex={0} role="region" aria-label={t("preview.chunksOf", { name })}>
        <ol class="chunks">
          {chunks.map((chunk) => (
            <li key={chunk.chunk_index}>
              <Chunk chunk={chunk} isShared={shared.has(nameRange(chunk))} />
            </li>
          ))}
        </ol>
      </div>
    </>
  );
}

function Chunk({ chunk, isShared }: { chunk: PreviewChunkOut; isShared: boolean }) {
  return (
    <article class="chunk">
      <header class="chunk-head">
        <strong>{t("chunk.number", { number: chunk.chunk_index })}</strong>
        <span class="muted">{formatPlace(chunk)}</span>
        <span class="muted">{tn("tokens.count", chunk.tokens)}</span>
        {isShared && <Badge>{t("preview.inBoth")}</Badge>}
      </header>
      {chunk.section_titles.length > 0 && <p class="muted small">{chunk.section_titles.join(" › ")}</p>}
      <p class="text">{chunk.text}</p>
    </article>
  );
}
