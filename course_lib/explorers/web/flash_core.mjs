// What the tile-by-tile explorer shows at a step: looked up in what Python computed. No page, so that Node tests it.

/** A step that exists: from 0 to the last one. */
export function clampStep(data, step) {
  return Math.min(Math.max(step, 0), data.steps.length - 1);
}

const within = ([first, end], at) => first <= at && at < end;

/** Whether a step reads the score of query i with key j. */
const reads = (step, i, j) => step.kind === "tile" && within(step.rows, i) && within(step.columns, j);

/**
 * A square of the matrix at a step: "now" with its score, "hidden" where the mask hides it, "past" if
 * it was read and forgotten, "ahead" if it will be read, "never" if its tile is not visited at all.
 */
export function square(data, at, i, j) {
  const when = data.steps.findIndex((step) => reads(step, i, j));
  if (when < 0) return { kind: "never", text: "" };
  if (when !== at) return { kind: when < at ? "past" : "ahead", text: "" };
  const step = data.steps[at];
  const text = step.scores[i - step.rows[0]][j - step.columns[0]];
  return { kind: text === "−∞" ? "hidden" : "now", text };
}

/** What is kept of query i at a step: largest, total, mixed and output; empty texts before its turn. */
export function kept(data, at, i) {
  for (let step = at; step >= 0; step -= 1) {
    const { rows, known } = data.steps[step];
    if (within(rows, i)) return { output: "", ...known[i - rows[0]] };
  }
  return { largest: "", total: "", mixed: "", output: "" };
}

/** Whether query i is being worked on at a step. */
export const working = (data, at, i) => within(data.steps[at].rows, i);

/** The sentence for a query at a step: how its numbers came about. */
export function explained(data, at, i) {
  const { rows, said } = data.steps[at];
  if (within(rows, i)) return said[i - rows[0]];
  const label = data.labels[i];
  return i < rows[0] ? `${label} is done: its output has been written.` : `${label} waits for its turn.`;
}

/** How many bytes were moved up to a step, beside what plain attention moves. */
export function moving(data, at) {
  const grouped = (number) => number.toLocaleString("en-US");
  return `${grouped(data.steps[at].bytes)} bytes moved so far; plain attention moves ${grouped(data.plain)} in all`;
}
