// An action of a person that calls the API: busy while it runs, with the error of the last run.
import { useState } from "preact/hooks";
import { ApiError } from "./client";

export interface Action<A extends unknown[]> {
  run: (...args: A) => Promise<boolean>;
  isBusy: boolean;
  error: ApiError | null;
}

/** Make an action. `run` answers whether it succeeded, and does nothing while an earlier run goes on. */
export function useAction<A extends unknown[]>(act: (...args: A) => Promise<void>): Action<A> {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const run = async (...args: A): Promise<boolean> => {
    if (isBusy) return false;
    setBusy(true);
    setError(null);
    try {
      await act(...args);
      return true;
    } catch (failure) {
      setError(failure instanceof ApiError ? failure : new ApiError(0, "unreadable", String(failure), null));
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { run, isBusy, error };
}
