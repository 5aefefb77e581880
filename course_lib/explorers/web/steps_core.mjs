// What the step-through of attention says: numbers into sentences. No page, so that Node tests it.

export const STEPS = ["score", "scale", "mask", "normalise", "mix"];

/** A number with as many digits as it needs, at most `digits` after the point; −∞ for a hidden one. */
export function figure(value, digits = 2) {
  if (value === null || value === -Infinity) return "−∞";
  const rounded = Number(value.toFixed(digits));
  const text = Number.isInteger(rounded) ? String(rounded) : rounded.toFixed(digits);
  return text.replace("-", "−");
}

const factor = (value) => (value < 0 ? `(${figure(value)})` : figure(value));

/** a₁·b₁ + a₂·b₂ + …, with its result. */
export function product(a, b, result) {
  return `${a.map((value, i) => `${factor(value)}·${factor(b[i])}`).join(" + ")} = ${figure(result)}`;
}

/** Step 1: query i meets key j. */
export function scoreText(data, i, j) {
  const { labels, query, key, score } = data;
  return `${labels[i]} asks, ${labels[j]} offers: ${product(query[i], key[j], score[i][j])}`;
}

/** Step 2: divided by the root of d_k. */
export function scaleText(data, i, j) {
  const width = data.query[i].length;
  return `${figure(data.score[i][j])} / √${width} = ${figure(data.scaled[i][j])}`;
}

/** Step 3, where there is a mask: what may not be read becomes −∞. */
export function maskText(data, i, j) {
  const { labels, masked, scaled } = data;
  return masked[i][j] === null
    ? `${labels[i]} may not read ${labels[j]}: −∞ in place of ${figure(scaled[i][j])}`
    : `${labels[i]} may read ${labels[j]}: ${figure(masked[i][j])} stays`;
}

/** The softmax of row i, for key j. */
export function normaliseText(data, i, j) {
  const row = data.masked ?? data.scaled;
  if (row[i].every((value) => value === null)) {
    return `${data.labels[i]} may read nothing: all weights are 0`;
  }
  const all = row[i].map((value) => (value === null ? "0" : `e^${factor(value)}`)).join(" + ");
  const own = row[i][j] === null ? "0" : `e^${factor(row[i][j])}`;
  return `${own} / (${all}) = ${figure(data.weights[i][j])}`;
}

/** What token i takes home in column c: its weights times that column of the values. */
export function mixText(data, i, c) {
  const column = data.value.map((row) => row[c]);
  return `${data.labels[i]} receives ${product(data.weights[i], column, data.output[i][c])}`;
}

const columnNames = (data, row) => (data.features?.length ? data.features : row.map((_, c) => `column ${c}`));

/** What entry (i, j) of a step was made of: two rows of numbers, their columns' names, which one counts. */
export function ingredients(data, name, i, j) {
  const { labels } = data;
  const before = name === "normalise" && data.masked ? data.masked : data.scaled;
  const tokens = { columns: labels, counts: j };
  const all = {
    score: {
      columns: columnNames(data, data.query[i]),
      rows: [[`query of ${labels[i]}`, data.query[i]], [`key of ${labels[j]}`, data.key[j]]],
    },
    scale: { ...tokens, rows: [[`scores of ${labels[i]}`, data.score[i]], ["scaled", data.scaled[i]]] },
    mask: { ...tokens, rows: [[`scaled scores of ${labels[i]}`, data.scaled[i]], ["masked", data.masked?.[i]]] },
    normalise: { ...tokens, rows: [[`scaled scores of ${labels[i]}`, before[i]], ["weights", data.weights[i]]] },
    mix: {
      columns: labels,
      rows: [
        [`weights of ${labels[i]}`, data.weights[i]],
        [`${columnNames(data, data.output[0])[j]} in value`, data.value.map((row) => row[j])],
      ],
    },
  };
  return { counts: -1, ...all[name] };
}

/** The steps that there are: without a mask four. */
export function stepsOf(data) {
  return STEPS.filter((step) => step !== "mask" || data.masked);
}

/** The matrix of a step, what its columns are called, and the sentence for one entry. */
export function stepOf(data, name) {
  const tokens = { columns: data.labels, axes: "row: the token that reads · column: the token that is read" };
  return {
    score: { matrix: data.score, title: "scores = query · key", text: scoreText, ...tokens },
    scale: { matrix: data.scaled, title: "scores / √d_k", text: scaleText, ...tokens },
    mask: { matrix: data.masked, title: "hidden scores become −∞", text: maskText, ...tokens },
    normalise: { matrix: data.weights, title: "weights = softmax of each row", text: normaliseText, ...tokens },
    mix: {
      matrix: data.output,
      title: "output = weights @ value",
      text: mixText,
      axes: "row: the token that reads · column: what it receives",
      columns: columnNames(data, data.output[0]),
    },
  }[name];
}
