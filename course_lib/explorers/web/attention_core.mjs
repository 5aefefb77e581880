// What the attention explorer computes before it draws: no page, no canvas, so that Node tests it.

/** One model's weights: unsigned 16-bit numbers, (layer, head, query, key); 65535 is a weight of 1. */
export class Weights {
  constructor(view, { layers, heads, tokens }) {
    const wanted = layers * heads * tokens * tokens;
    if (view.byteLength !== 2 * wanted) {
      throw new Error(`${view.byteLength} bytes for ${wanted} weights of 2 bytes each`);
    }
    // a copy: the bytes may begin at an odd place of their buffer
    this.values = new Uint16Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
    Object.assign(this, { layers, heads, tokens });
  }

  /** The map of a head, or the mean of all heads of the layer where head is -1: Float32Array. */
  map(layer, head) {
    const size = this.tokens * this.tokens;
    const chosen = head < 0 ? [...Array(this.heads).keys()] : [head];
    const sum = new Float32Array(size);
    for (const one of chosen) {
      const start = (layer * this.heads + one) * size;
      for (let i = 0; i < size; i += 1) sum[i] += this.values[start + i];
    }
    const full = 65535 * chosen.length;
    for (let i = 0; i < size; i += 1) sum[i] /= full;
    return sum;
  }
}

/** The difference of two maps of one size: positive where the first one reads more. */
export function difference(first, second) {
  return first.map((value, i) => value - second[i]);
}

/** The keys that a query reads most, as [key, weight], the strongest first. */
export function strongest(map, tokens, query, count, least = 0.005) {
  const row = Array.from(map.subarray(query * tokens, (query + 1) * tokens), (w, key) => [key, w]);
  return row
    .filter(([, weight]) => Math.abs(weight) >= least)
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]) || a[0] - b[0])
    .slice(0, count);
}

/** A sentence for the line below the maps, and for a screen reader. */
export function describe(labels, query, pairs, { isDifference = false } = {}) {
  const reader = `“${labels[query]}” at ${query}`;
  if (pairs.length === 0) {
    return isDifference ? `${reader}: both read alike` : `${reader} reads nothing`;
  }
  const read = pairs.map(([key, weight]) => {
    const amount = isDifference && weight > 0 ? `+${weight.toFixed(2)}` : weight.toFixed(2);
    return `“${labels[key]}” at ${key}: ${amount}`;
  });
  return `${reader} ${isDifference ? "reads differently" : "reads"} ${read.join(", ")}`;
}

/** Places for tokens in lines of a width: [{x, y, width}], each line as high as lineHeight. */
export function flow(widths, breaks, room, lineHeight) {
  const places = [];
  let x = 0;
  let line = 0;
  widths.forEach((width, i) => {
    if (x > 0 && x + width > room) {
      x = 0;
      line += 1;
    }
    places.push({ x, y: line * lineHeight, width });
    x += width;
    if (breaks[i]) {
      x = 0;
      line += 1;
    }
  });
  return places;
}

/** Which token lies at a point, or -1. */
export function tokenAt(places, x, y, lineHeight) {
  return places.findIndex(
    (p) => x >= p.x && x < p.x + p.width && y >= p.y && y < p.y + lineHeight,
  );
}

/** The token above (step -1) or below (step 1) a token, nearest to its middle; itself if none. */
export function neighbour(places, token, step) {
  const lines = [...new Set(places.map((p) => p.y))];
  const line = lines.indexOf(places[token].y) + step;
  if (line < 0 || line >= lines.length) return token;
  const middle = places[token].x + places[token].width / 2;
  let best = token;
  let nearest = Infinity;
  places.forEach((p, i) => {
    const away = Math.abs(p.x + p.width / 2 - middle);
    if (p.y === lines[line] && away < nearest) [best, nearest] = [i, away];
  });
  return best;
}

/**
 * The pixels of a map, four bytes each, for an ImageData of tokens × tokens.
 *
 * A weight takes its colour from `ink`; less than 0, in a difference, from `other`.
 */
export function paint(map, { ink, other }) {
  const pixels = new Uint8ClampedArray(4 * map.length);
  for (let i = 0; i < map.length; i += 1) {
    const colours = map[i] < 0 ? other : ink;
    const colour = colours[Math.min(Math.round(Math.abs(map[i]) * 255), 255)];
    const at = 4 * i;
    pixels[at] = colour[0];
    pixels[at + 1] = colour[1];
    pixels[at + 2] = colour[2];
    pixels[at + 3] = 255;
  }
  return pixels;
}
