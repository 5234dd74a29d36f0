// Evaluations: the runs of golden sets, and a form that starts one with one or two search settings.
import { useState } from "preact/hooks";
import { useAction } from "../api/action";
import { request } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import type { CapabilitiesOut, EvaluationList, EvaluationOut, GoldenSetList, GoldenSetOut } from "../api/schema";
import { useTitle } from "../app";
import { EvaluationState, formatSetting } from "../components/evaluation_parts";
import { Field, SelectField, TextField } from "../components/fields";
import { ScreenHead } from "../components/frame";
import { Pages } from "../components/pages";
import { DataTable, Section, Time } from "../components/parts";
import { EmptyState, Loaded, NoPermission } from "../components/states";
import { formatNumber, t, tn } from "../i18n";
import { buildPath, location, navigate } from "../router";
import { canEvaluate } from "../session";

export function EvaluationsScreen() {
  useTitle(t("evaluations.title"));
  const { query } = location.value;
  const set = query.get("set");
  const path = canEvaluate.value ? "/v1/evaluations" : null;
  const list = useResource<EvaluationList>(path, { set, cursor: query.get("cursor") });
  const sets = useResource<GoldenSetList>(path && "/v1/golden-sets", { limit: 200 });
  if (!path) {
    return (
      <>
        <ScreenHead title={t("evaluations.title")} />
        <NoPermission>{t("golden.needsWriter")}</NoPermission>
      </>
    );
  }
  return (
    <>
      <ScreenHead title={t("evaluations.title")} note={t("evaluations.note")} actions={<SetFilter set={set} sets={sets} />} />
      <Loaded resource={list}>
        {({ items, next_cursor }) =>
          items.length === 0 ? (
            <EmptyState title={t("evaluations.empty")} />
          ) : (
            <>
              <DataTable label={t("evaluations.title")} head={<Head />}>
                {items.map((item) => (
                  <Row key={item.id} item={item} sets={sets.data?.items ?? []} />
                ))}
              </DataTable>
              <Pages parts={["evaluations"]} query={{ set }} nextCursor={next_cursor} />
            </>
          )
        }
      </Loaded>
      <Loaded resource={sets}>{({ items }) => <StartForm key={set} sets={items} chosen={set} />}</Loaded>
    </>
  );
}

function SetFilter({ set, sets }: { set: string | null; sets: Resource<GoldenSetList> }) {
  return (
    <label class="inline-field">
      <span>{t("evaluations.set")}</span>
      <select
        value={set ?? ""}
        onChange={(event) => navigate(buildPath(["evaluations"], { set: event.currentTarget.value }))}
      >
        <option value="">{t("evaluations.allSets")}</option>
        {sets.data?.items.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function Head() {
  return (
    <>
      <th scope="col">{t("evaluations.set")}</th>
      <th scope="col">{t("evaluations.settings")}</th>
      <th scope="col">{t("column.status")}</th>
      <th scope="col" class="number">{t("evaluations.searches")}</th>
      <th scope="col">{t("jobs.created")}</th>
    </>
  );
}

function Row({ item, sets }: { item: EvaluationOut; sets: GoldenSetOut[] }) {
  return (
    <tr>
      <th scope="row">
        <a href={buildPath(["evaluations", item.id])}>{sets.find(({ id }) => id === item.set)?.name ?? item.set}</a>
      </th>
      <td class="wide">
        {item.settings.map((setting, index) => (
          <span class="sub" key={index}>
            <code>{formatSetting(setting)}</code>
          </span>
        ))}
      </td>
      <td>
        <EvaluationState state={item.state} />
      </td>
      <td class="number">
        {formatNumber(item.progress.done)} / {formatNumber(item.progress.total)}
      </td>
      <td>
        <Time value={item.created_at} />
      </td>
    </tr>
  );
}

/** Return the fields of a setting, or null if the text is no JSON object. */
function readSetting(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function StartForm({ sets, chosen }: { sets: GoldenSetOut[]; chosen: string | null }) {
  const capabilities = useResource<CapabilitiesOut>("/v1/capabilities");
  const strategies = capabilities.data?.strategies.map(({ name }) => name) ?? [];
  const [set, setSet] = useState(chosen ?? sets[0]?.id ?? "");
  const [texts, setTexts] = useState(["{}", ""]);
  const used = texts.filter((text, index) => index === 0 || text.trim());
  const settings = used.map(readSetting);
  const isUnreadable = settings.includes(null);
  const body = JSON.stringify({ set, settings }, null, 2);
  const action = useAction(async () => {
    const { data } = await request<EvaluationOut>("/v1/evaluations", { method: "POST", body });
    navigate(buildPath(["evaluations", data.id]));
  });
  const start = (event: Event) => {
    event.preventDefault();
    void action.run();
  };
  if (sets.length === 0) {
    return (
      <Section title={t("evaluations.new")}>
        <p>
          {t("evaluations.needsSet")} <a href={buildPath(["golden-sets"])}>{t("golden.title")}</a>
        </p>
      </Section>
    );
  }
  const choices = sets.map(({ id, name, item_count }) => ({ value: id, label: `${name} (${tn("golden.itemCount", item_count)})` }));
  return (
    <Section title={t("evaluations.new")}>
      <form class="stacked" onSubmit={start}>
        <SelectField label={t("evaluations.set")} value={set} change={setSet} choices={choices} />
        <div class="setting-columns">
          {texts.map((text, index) => (
            <SettingFields
              key={index}
              number={index + 1}
              text={text}
              strategies={strategies}
              error={used.includes(text) && readSetting(text) === null ? t("evaluations.unreadable") : null}
              change={(changed) => setTexts(texts.map((old, place) => (place === index ? changed : old)))}
            />
          ))}
        </div>
        <pre class="code" tabIndex={0} data-testid="body">{isUnreadable ? t("evaluations.unreadable") : body}</pre>
        {action.error && <p class="bad-text" role="alert">{action.error.message}</p>}
        <div>
          <button type="submit" class="button primary" disabled={action.isBusy || isUnreadable}>
            {t("evaluations.start")}
          </button>
        </div>
      </form>
    </Section>
  );
}

function SettingFields(props: {
  number: number;
  text: string;
  strategies: string[];
  error: string | null;
  change: (text: string) => void;
}) {
  const { number, text, change } = props;
  return (
    <div>
      <Field label={t("evaluations.template", { number })}>
        {(control) => (
          <select {...control} value="" onChange={(event) => change(event.currentTarget.value)}>
            <option value="" disabled>
              {t("evaluations.chooseTemplate")}
            </option>
            <option value="{}">{t("playground.default")}</option>
            {props.strategies.map((name) => (
              <option key={name} value={JSON.stringify({ strategy: name }, null, 2)}>
                {name}
              </option>
            ))}
          </select>
        )}
      </Field>
      <TextField
        label={t("evaluations.setting", { number })}
        hint={t(number === 1 ? "evaluations.baselineHint" : "evaluations.secondHint")}
        error={props.error}
        value={text}
        change={change}
        rows={5}
      />
    </div>
  );
}
