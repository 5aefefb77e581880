// What the sampling playground computes before it draws: scales, moves of sliders, sentences. No page,
// so that Node tests it. Probabilities come from the kernel.

/** A probability in the room of a bar: .41, <.01, 1. */
export function share(probability) {
  if (probability === 0) return "0";
  if (probability < 0.005) return "<.01";
  if (probability >= 0.995) return probability === 1 ? "1" : ">.99";
  return probability.toFixed(2).slice(1);
}

/** The top of a scale that holds the values: few different ones, so that it jumps seldom. */
export function ceiling(values) {
  const most = Math.max(...values, 0);
  return [0.05, 0.1, 0.2, 0.5, 1].find((top) => most <= top * (1 + 1e-9)) ?? 1;
}

/** The values of k on a slider: each one at first, then in steps; the last is all, no filter. */
export function kSteps(size) {
  const steps = [];
  for (let k = 1; k < size; k = Math.max(k + 1, Math.round(k * 1.15))) steps.push(k);
  return [...steps, size];
}

/** The step of the slider that is nearest to k, the last one for none (null). */
export function kStep(steps, k) {
  if (k === null) return steps.length - 1;
  let best = 0;
  steps.forEach((step, i) => {
    if (Math.abs(step - k) < Math.abs(steps[best] - k)) best = i;
  });
  return best;
}

const FATE = { temperature: "removed by the temperature", "top-k": "removed by top-k", "top-p": "removed by top-p" };

/** A bar in words. */
export function barText({ label, raw, heated, final, fate }, temperature) {
  const before = `“${label}”: ${share(raw)} as the model gave it`;
  const at = temperature === 1 ? "" : `, ${share(heated)} at temperature ${temperature}`;
  return `${before}${at}, ${fate === "kept" ? `drawn with ${share(final)}` : FATE[fate]}`;
}

/** The characters without a bar of their own, in words. */
export function othersText({ count, kept, raw, final }) {
  return `${count} others, together ${share(raw)} as the model gave it; ${kept} of them left, drawn with ${share(final)}`;
}

/** What the filters leave, and what each of them took. */
export function keptText({ kept, of, removed }) {
  const taken = Object.entries(removed)
    .filter(([, { count }]) => count > 0)
    .map(([name, { count, heated }]) => (name === "temperature" ? `${name} ${count}` : `${name} ${count}, together ${share(heated)}`));
  const left = `${kept} of ${of} characters can come next`;
  return taken.length ? `${left}. Removed: ${taken.join("; ")}.` : `${left}. Nothing is removed.`;
}

/** How a written character was chosen. */
export function drawnText({ label, rank, final, fate }) {
  const place = rank === 0 ? "the likeliest" : `number ${rank + 1} of the likeliest`;
  const odds = fate === "kept" ? `drawn with ${share(final)}` : "removed by the settings of now";
  return `“${label}” came: ${place}, ${odds}.`;
}
