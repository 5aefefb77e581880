// What the training dashboard computes before it draws: no page, no canvas, so that Node tests it.

const STEP = 0; // places in a point: [step, loss of the batch, mean, rate]
const BATCH = 1;
export const MEAN = 2;
export const RATE = 3;

const STATES = {
  opening: "Opening …",
  training: "Training",
  paused: "Paused",
  closing: "Measuring and saving …",
  stopped: "Stopped",
  finished: "Finished",
  failed: "Failed",
};
const ASKED = { pause: "Pausing after this step …", resume: "Going on …", stop: "Stopping after this step …" };

/** What a run does, for people; asked is a wish that it has not followed yet. */
export const stateText = (state, asked) => (asked ? ASKED[asked] : STATES[state]) ?? state;

/** The two buttons in a state: what each wishes, its word, and whether it can be pressed. */
export function buttonsIn(state, asked) {
  const goesOn = ["paused", "stopped", "failed"].includes(state);
  const first = goesOn ? { wish: "resume", word: "Resume" } : { wish: "pause", word: "Pause" };
  return [
    { ...first, enabled: !asked && (goesOn || state === "training") },
    { wish: "stop", word: "Stop", enabled: !asked && ["training", "paused"].includes(state) },
  ];
}

/** Rows that begin with their step, and what came after a step: it replaces all after that step. */
export function joined(rows, after, more) {
  return [...rows.filter((row) => row[STEP] <= after), ...more];
}

/** Places for about `count` ticks between two numbers, at 1, 2 or 5 times a power of ten. */
export function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9));
  const first = Math.ceil(low / step - 1e-9);
  const found = [];
  for (let i = first; i * step <= high + step * 1e-9; i += 1) found.push(Number((i * step).toPrecision(12)));
  return found;
}

/** Lowest and highest loss on the axis: means, validation, batches; of one that jumps up, half of the jump. */
export function lossRange(points, validation) {
  const means = [...points.map((p) => p[MEAN]), ...validation.map((v) => v[1])].filter(Number.isFinite);
  if (means.length === 0) return [0, 1];
  const batches = points.map((p) => p[BATCH]).filter(Number.isFinite);
  const high = Math.max(...means);
  const bottom = Math.min(...means, ...batches);
  const top = (high + Math.max(high, ...batches)) / 2;
  const room = Math.max((top - bottom) * 0.04, 0.02);
  return [Math.max(bottom - room, 0), top + room];
}

/** Lines through [x, y] pairs; a y that is no number ends a line, and the next one begins after it. */
export function strokes(pairs) {
  const lines = [];
  let line = null;
  for (const [x, y] of pairs) {
    if (!Number.isFinite(y)) {
      line = null;
      continue;
    }
    if (!line) lines.push((line = []));
    line.push([x, y]);
  }
  return lines;
}

/** From numbers to pixels. */
export const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

/** The place of the row whose step is nearest to a step; -1 if there are none. */
export function nearest(rows, step) {
  let best = -1;
  rows.forEach((row, at) => {
    if (best < 0 || Math.abs(row[STEP] - step) < Math.abs(rows[best][STEP] - step)) best = at;
  });
  return best;
}

/** Where the cursor goes on a key, among so many points; null for another key. */
export function movedAlong(key, at, count) {
  const far = Math.max(1, Math.round(count / 20));
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, PageDown: at - far, PageUp: at + far, Home: 0, End: count - 1 }[key];
  return to === undefined || count === 0 ? null : Math.min(Math.max(to, 0), count - 1);
}

const number = (value, digits) => (Number.isFinite(value) ? value.toFixed(digits) : "no number");

/** A point in words, with the validation at its step if there is one. */
export function pointText(point, validation) {
  const measured = validation.find((row) => row[STEP] === point[STEP]);
  return (
    `step ${point[STEP].toLocaleString("en")}: loss of this batch ${number(point[BATCH], 3)}, ` +
    `mean ${number(point[MEAN], 3)}` +
    `${measured ? `, validation ${number(measured[1], 3)}` : ""}, rate ${Number(point[RATE].toPrecision(2))}`
  );
}

/** What a screen reader is told, at changes that matter: not at every step. */
export function spoken(state, { step, validation } = {}) {
  const measured = validation ? `, validation loss ${validation}` : "";
  return `${stateText(state)}${step ? `, step ${step}` : ""}${measured}`;
}
