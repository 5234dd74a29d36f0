// Loading of data for a screen: loading, error or data, and a reload that keeps the old data visible.
import { useCallback, useEffect, useState } from "preact/hooks";
import { ApiError, request, type RequestOptions } from "./client";

export interface Resource<T> {
  data: T | null;
  /** Version of the data, for `If-Match`. */
  etag: string | null;
  error: ApiError | null;
  isLoading: boolean;
  reload: () => void;
}

/** Load `path` whenever it or the query changes; a null path loads nothing. */
export function useResource<T>(
  path: string | null,
  query: RequestOptions["query"] = {},
  options: Pick<RequestOptions, "dataStatus"> = {},
): Resource<T> {
  const [state, setState] = useState<{ address: string; data: T | null; etag: string | null; error: ApiError | null }>();
  const [attempt, setAttempt] = useState(0);
  const address = path === null ? "" : `${path}?${JSON.stringify(query)}`;

  useEffect(() => {
    if (path === null) return;
    const controller = new AbortController();
    const { signal } = controller;
    request<T>(path, { ...options, query, signal }).then(
      ({ data, etag }) => signal.aborted || setState({ address, data, etag, error: null }),
      (error: unknown) => {
        if (signal.aborted) return;
        const shown = error instanceof ApiError ? error : new ApiError(0, "unreadable", String(error), null);
        setState({ address, data: null, etag: null, error: shown });
      },
    );
    return () => controller.abort();
  }, [address, attempt]);

  const reload = useCallback(() => setAttempt((number) => number + 1), []);
  const current = state?.address === address ? state : undefined;
  return {
    data: current?.data ?? null,
    etag: current?.etag ?? null,
    error: current?.error ?? null,
    isLoading: path !== null && current === undefined,
    reload,
  };
}
