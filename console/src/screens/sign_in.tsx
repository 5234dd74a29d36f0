// Sign-in: the person pastes an API key.
import { useEffect, useRef, useState } from "preact/hooks";
import { useTitle } from "../app";
import { Preferences } from "../components/preferences";
import { t } from "../i18n";
import { signIn, signOutReason } from "../session";

export function SignInScreen() {
  const [key, setKey] = useState("");
  const [keep, setKeep] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useTitle(t("signIn.title"));
  useEffect(() => field.current?.focus(), []);

  const submit = (event: Event) => {
    event.preventDefault();
    if (key.trim()) signIn(key.trim(), { keep });
  };
  return (
    <main class="centered">
      <form class="sign-in" onSubmit={submit} autocomplete="off">
        <p class="product">{t("product.name")}</p>
        <h1>{t("signIn.title")}</h1>
        {signOutReason.value === "rejected" && (
          <p class="notice bad" role="alert">
            {t("signIn.rejected")}
          </p>
        )}
        <label class="field">
          <span>{t("signIn.key")}</span>
          <input
            ref={field}
            type="password"
            value={key}
            autocomplete="off"
            spellcheck={false}
            required
            onInput={(event) => setKey(event.currentTarget.value)}
          />
        </label>
        <p class="muted small">{t("signIn.hint")}</p>
        <label class="check">
          <input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} />
          <span>{t("signIn.keep")}</span>
        </label>
        <button type="submit" class="button primary">
          {t("signIn.submit")}
        </button>
        <Preferences />
      </form>
    </main>
  );
}
