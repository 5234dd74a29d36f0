// A list that grows page by page. The pages that are in view can be read again in place.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Query } from "../router";
import { ApiError, request } from "./client";

interface Item {
  id: string;
  created_at: string;
}

interface Page<T> {
  cursor: string | null;
  items: T[];
  next: string | null;
}

interface Reply<T> {
  items: T[];
  next_cursor?: string | null;
}

interface State<T> {
  address: string;
  pages: Page<T>[];
  error: ApiError | null;
}

export interface CursorList<T> {
  /** Items of all loaded pages; null before the first page. */
  items: T[] | null;
  hasMore: boolean;
  error: ApiError | null;
  loadMore: () => void;
  /** Read the pages again that hold these positions, at most two. */
  refresh: (first: number, last: number) => void;
  reload: () => void;
}

const PAGE_SIZE = 200;
const MAX_REFRESHED_PAGES = 2;

const toApiError = (error: unknown) => (error instanceof ApiError ? error : new ApiError(0, "unreadable", String(error), null));

/** Load a list by its cursor; a null path loads nothing, and another query begins again. */
export function useCursorList<T extends Item>(path: string | null, query: Query): CursorList<T> {
  const [attempt, setAttempt] = useState(0);
  const address = `${path}?${JSON.stringify(query)}#${attempt}`;
  const [state, setState] = useState<State<T>>({ address: "", pages: [], error: null });
  const current: State<T> = state.address === address ? state : { address, pages: [], error: null };
  const abort = useRef(new AbortController());
  const isBusy = useRef(false);

  const load = (cursor: string | null, take: (pages: Page<T>[], reply: Reply<T>) => Page<T>[]) => {
    const { signal } = abort.current;
    isBusy.current = true;
    const finish = (change: (before: State<T>) => State<T>) => {
      if (signal.aborted) return;
      isBusy.current = false;
      setState((before) => change(before.address === address ? before : { address, pages: [], error: null }));
    };
    request<Reply<T>>(path ?? "", { query: { ...query, cursor, limit: PAGE_SIZE }, signal }).then(
      ({ data }) => finish((before) => ({ address, pages: take(before.pages, data), error: null })),
      (error: unknown) => finish((before) => ({ ...before, error: toApiError(error) })),
    );
  };
  const append = (cursor: string | null) =>
    load(cursor, (pages, { items, next_cursor }) => [...pages, { cursor, items, next: next_cursor ?? null }]);

  useEffect(() => {
    if (path === null) return;
    abort.current = new AbortController();
    append(null);
    return () => abort.current.abort();
  }, [address]);

  const next = current.pages.at(-1)?.next ?? null;
  const refresh = (first: number, last: number) => {
    let start = 0;
    const inView = current.pages.filter(({ items }) => {
      const isInView = start <= last && start + items.length > first;
      start += items.length;
      return isInView;
    });
    for (const { cursor } of inView.slice(0, MAX_REFRESHED_PAGES)) {
      load(cursor, (pages, reply) => pages.map((page) => (page.cursor === cursor ? mergePage(page, reply) : page)));
    }
  };
  return {
    items: current.pages.length ? current.pages.flatMap(({ items }) => items) : null,
    hasMore: next !== null,
    error: current.error,
    loadMore: () => void (next !== null && !isBusy.current && append(next)),
    refresh,
    reload: useCallback(() => setAttempt((number) => number + 1), []),
  };
}

/** Update the items of a page, drop those that no longer match, and add new ones before the first page. */
function mergePage<T extends Item>(page: Page<T>, { items, next_cursor }: Reply<T>): Page<T> {
  const fresh = new Map(items.map((item) => [item.id, item]));
  const end = items.at(-1)?.created_at;
  const isBeyond = (item: T) => !!next_cursor && end !== undefined && item.created_at <= end;
  const known = new Set(page.items.map(({ id }) => id));
  const kept = page.items.flatMap((item) => fresh.get(item.id) ?? (isBeyond(item) ? item : []));
  const newest = page.items[0]?.created_at ?? "";
  const added = page.cursor === null ? items.filter((item) => !known.has(item.id) && item.created_at > newest) : [];
  return { ...page, items: [...added, ...kept] };
}
