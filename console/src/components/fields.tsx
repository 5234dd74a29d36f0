// Fields of forms: a label, a control, and below it a hint or what is wrong.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface FieldProps {
  label: string;
  hint?: ComponentChildren;
  error?: string | null;
}

interface ControlProps {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": boolean | undefined;
}

/** A label with a control, which gets the properties that tie it to the label and the hint. */
export function Field({ label, hint, error, children }: FieldProps & { children: (control: ControlProps) => ComponentChildren }) {
  const id = useId();
  const hasNote = Boolean(hint || error);
  const noteId = `${id}-note`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-describedby": hasNote ? noteId : undefined, "aria-invalid": error ? true : undefined })}
      {hasNote && (
        <p id={noteId} class={error ? "field-note bad-text" : "field-note muted"}>
          {error || hint}
        </p>
      )}
    </div>
  );
}

type TextProps = FieldProps & {
  value: string;
  change: (value: string) => void;
  type?: "text" | "number" | "search" | "url" | "datetime-local";
  required?: boolean;
  rows?: number;
  placeholder?: string;
};

/** A field for a line of text, or for several lines if `rows` is given. */
export function TextField({ value, change, type = "text", required, rows, placeholder, ...field }: TextProps) {
  return (
    <Field {...field}>
      {(control) =>
        rows ? (
          <textarea
            {...control}
            rows={rows}
            required={required}
            placeholder={placeholder}
            value={value}
            onInput={(event) => change(event.currentTarget.value)}
          />
        ) : (
          <input
            {...control}
            {...({ type } as { type: "text" })}
            required={required}
            placeholder={placeholder}
            value={value}
            onInput={(event) => change(event.currentTarget.value)}
          />
        )
      }
    </Field>
  );
}

export interface Choice {
  value: string;
  label: string;
}

export function SelectField({ value, change, choices, ...field }: FieldProps & { value: string; change: (value: string) => void; choices: Choice[] }) {
  return (
    <Field {...field}>
      {(control) => (
        <select {...control} value={value} onChange={(event) => change(event.currentTarget.value)}>
          {choices.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.label}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function CheckField({ label, checked, change }: { label: string; checked: boolean; change: (checked: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={(event) => change(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}
