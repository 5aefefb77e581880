// What the position explorer chooses and says: which numbers, in which words. No page, so that Node tests it.

export const VIEWS = { sinusoidal: "Sinusoidal", rotary: "Rotary (RoPE)", alibi: "ALiBi" };
const TURN = 2 * Math.PI;

const bounded = (value, most) => Math.min(Math.max(Math.round(value) || 0, 0), most);

/** What is chosen, with every number in the bounds of the data. */
export function within(data, selected) {
  const { length } = data;
  const view = selected.view in VIEWS ? selected.view : "sinusoidal";
  const heads = bounded(selected.heads, data.alibi.length - 1);
  const pairs = (view === "rotary" ? data.rotary.frequencies : data.sinusoidal.wavelengths).length;
  return {
    view,
    pair: bounded(selected.pair, pairs - 1),
    position: bounded(selected.position, length - 1),
    m: bounded(selected.m, length - 1),
    n: bounded(selected.n, length - 1),
    words: bounded(selected.words, data.rotary.words.length - 1),
    heads,
    head: bounded(selected.head, data.alibi[heads].n_heads - 1),
  };
}

/** Query and key moved by the same number of positions, as far as both can go. */
export function together({ m, n }, by, length) {
  const step = Math.min(Math.max(by, -Math.min(m, n)), length - 1 - Math.max(m, n));
  return { m: m + step, n: n + step };
}

/** Where to put query and key for a distance m − n: the query stays if the key has a place. */
export function atDistance({ m }, distance, length) {
  const query = Math.min(Math.max(m, distance, 0), length - 1 + Math.min(distance, 0));
  return { m: query, n: query - distance };
}

/** How many places have this distance m − n, and the least and the largest score there. */
export function placesAt(scores, distance) {
  const there = scores.flatMap((row, m) => (row[m - distance] === undefined ? [] : [row[m - distance]]));
  return { count: there.length, least: Math.min(...there), largest: Math.max(...there) };
}

/** A number with its digits and a true minus; no "−0". */
export function decimal(value, digits = 2) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** A large number in few letters: 6.3, 35, 48,300. */
export const amount = (value) =>
  value < 10 ? decimal(value, 1) : String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");

/** A slope as 1/16, or 0.354 where it is none of a whole number. */
export function slopeName(slope) {
  const whole = Math.round(1 / slope);
  return Math.abs(slope * whole - 1) < 1e-6 ? `1/${whole}` : String(Number(slope.toPrecision(3)));
}

/** Some round numbers from low to high, for an axis; + 0, so that none is −0. */
export function ticks(low, high, most = 6) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)) + 0);
}

/** Least and largest of some curves, with a little room; never an empty range. */
export function spread(...curves) {
  const all = curves.flat();
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const room = Math.max((high - low) * 0.08, 1e-3);
  return [low - room, high + room];
}

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** What is chosen of the sinusoidal vectors, in words. */
export function sinusoidalText(data, { pair, position }) {
  const { vectors, wavelengths, products } = data.sinusoidal;
  const [sine, cosine] = vectors[position].slice(2 * pair, 2 * pair + 2);
  const row = products[position];
  const near = [row[position - 1], row[position + 1]].filter((value) => value !== undefined);
  return [
    `Pair ${pair} (dimensions ${2 * pair} and ${2 * pair + 1}) goes round once in ${amount(wavelengths[pair])} tokens; ` +
      `at position ${position} its sine is ${decimal(sine)}, its cosine ${decimal(cosine)}.`,
    `The vector of position ${position}, times itself: ${decimal(row[position], 1)}; ` +
      `times ${near.length > 1 ? "either neighbour" : "its neighbour"}: ${near.map((value) => decimal(value, 1)).join(" and ")}.`,
  ];
}

/** An angle in radians, with the degrees that are left after whole turns. */
export function angleText(radians) {
  const degrees = Math.round(((radians % TURN) / TURN) * 360) % 360;
  const turns = Math.floor(radians / TURN);
  const whole = turns > 0 ? `${plural(turns, "turn")} and ` : "";
  return `${decimal(radians)} rad, ${whole}${degrees}°`;
}

/** What is chosen of the rotary positions, in words. */
export function rotaryText(data, { pair, m, n, words }) {
  const { angles, frequencies } = data.rotary;
  const { queries, keys, parts } = data.rotary.words[words];
  const [[a, b], [c, d]] = [queries[pair][m], keys[pair][n]];
  const factor = (value) => (value < 0 ? `(${decimal(value)})` : decimal(value));
  return [
    `Pair ${pair} turns ${Number(frequencies[pair].toPrecision(3))} radians with each position. ` +
      `The query at ${m} is turned by ${angleText(angles[pair][m])}; the key at ${n} by ${angleText(angles[pair][n])}.`,
    `This pair: ${factor(a)}·${factor(c)} + ${factor(b)}·${factor(d)} = ${decimal(parts[pair][m - n + data.length - 1])}`,
  ];
}

/** The score of the whole head, here and wherever query and key stand as far apart. */
export function scoreLines(data, { m, n, words }) {
  const { scores } = data.rotary.words[words];
  const { count, least, largest } = placesAt(scores, m - n);
  const range = decimal(least) === decimal(largest) ? decimal(least) : `${decimal(least)} to ${decimal(largest)}`;
  return [
    `⟨f(q, ${m}), f(k, ${n})⟩ = ${decimal(scores[m][n])}`,
    count === 1
      ? `only here is the distance ${decimal(m - n, 0)}`
      : `at all ${count} places with distance m − n = ${decimal(m - n, 0)}: ${range}`,
  ];
}

/** Which slopes a number of heads has. */
export function slopesRule({ n_heads: heads, from_double: added }) {
  if (added === 0) return `${heads} is a power of two: each slope is the one before it, times 2^(−8/${heads}).`;
  const power = heads - added;
  return `${heads} is no power of two: the slopes of ${power} heads, then every second one of ${2 * power}, from its first.`;
}

/** What is chosen of ALiBi, in words. */
export function alibiText(data, { heads, head }) {
  const { n_heads: count, slopes, halves, reach, weights } = data.alibi[heads];
  return [
    `Head ${head} of ${count} has the slope ${slopeName(slopes[head])}: every ${amount(halves[head])} tokens the weight is halved.`,
    `If all scores are equal, the last of ${data.length} tokens reads itself with ${decimal(weights[head][0])}, ` +
      `and ${reach[head] === 1 ? "itself alone" : `the last ${reach[head]}`} with nine tenths of its attention.`,
  ];
}
