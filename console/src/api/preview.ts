// Previews of a file: what ingestion would make of it with a chunking. The service stores nothing of them.
import { useEffect, useState } from "preact/hooks";
import { ApiError, request } from "./client";
import type { Fields } from "./json_schema";
import type { PreviewChunkOut, PreviewOut } from "./schema";

/** Chunking of a preview, as the API takes it. Fields that are left out have the default of the service. */
export type Chunking = Fields & { strategy: string };

export interface PreviewState {
  data: PreviewOut | null;
  error: ApiError | null;
}

/** Read a chunking of an address; null if there is none, or it is none. */
export function readChunking(text: string | null): Chunking | null {
  try {
    const value: unknown = JSON.parse(text ?? "");
    const isChunking = typeof value === "object" && value !== null && "strategy" in value && typeof value.strategy === "string";
    return isChunking ? (value as Chunking) : null;
  } catch {
    return null;
  }
}

/** Preview a file with the chunking of a knowledge base, or with another one; a null field previews nothing. */
export function usePreview(file: File, field: { name: "knowledge_base" | "chunking"; value: string } | null): PreviewState {
  const [state, setState] = useState<PreviewState & { of: string; file: File }>();
  const address = JSON.stringify(field);
  useEffect(() => {
    if (!field) return;
    const controller = new AbortController();
    const { signal } = controller;
    const body = new FormData();
    body.append(field.name, field.value);
    body.append("file", file, file.name);
    request<PreviewOut>("/v1/preview", { method: "POST", body, signal }).then(
      ({ data }) => signal.aborted || setState({ of: address, file, data, error: null }),
      (failure: unknown) => {
        if (signal.aborted) return;
        const error = failure instanceof ApiError ? failure : new ApiError(0, "unreadable", String(failure), null);
        setState({ of: address, file, data: null, error });
      },
    );
    return () => controller.abort();
  }, [file, address]);
  const isCurrent = state?.of === address && state.file === file;
  return isCurrent ? state : { data: null, error: null };
}

/** Sizes of the chunks that a preview shows, in tokens. */
export interface ChunkSizes {
  smallest: number;
  median: number;
  largest: number;
  sum: number;
}

export function measureChunks(chunks: PreviewChunkOut[]): ChunkSizes {
  const sizes = chunks.map(({ tokens }) => tokens).sort((one, other) => one - other);
  const middle = sizes.slice(Math.floor((sizes.length - 1) / 2), Math.floor(sizes.length / 2) + 1);
  const sum = sizes.reduce((total, size) => total + size, 0);
  const median = middle.reduce((total, size) => total + size, 0) / Math.max(1, middle.length);
  return { smallest: sizes[0] ?? 0, median, largest: sizes.at(-1) ?? 0, sum };
}

/** Return the ranges of chunks, to find those that two chunkings share. */
export function listRanges(preview: PreviewOut | null): Set<string> {
  return new Set(preview?.chunks.map(nameRange));
}

export const nameRange = ({ start, end }: PreviewChunkOut): string => `${start}-${end}`;

/** Count chunks by size, in `count` ranges of equal width up to `largest`. */
export function countSizes(chunks: PreviewChunkOut[], largest: number, count: number): number[] {
  const counts = new Array<number>(count).fill(0);
  for (const { tokens } of chunks) {
    const index = Math.min(count - 1, Math.floor((tokens / Math.max(1, largest)) * count));
    counts[index] = (counts[index] ?? 0) + 1;
  }
  return counts;
}
