// What the cache calculator computes: bytes, and how they come about. No page, so that Node tests it.

export const LIMITS = { tokens: 2 ** 20, batch: 1024 };

const UNITS = [[1e15, "PB"], [1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "bytes"]];

/** What one token leaves in one layer: key and value of each key head, or latent and turned key. */
export function numbersPerLayer(card) {
  return card.d_latent === null ? 2 * card.n_kv_heads * card.d_head : card.d_latent + card.d_rotary;
}

/** Tokens that a layer keeps: all, or its window. */
export function tokensKept(card, tokens) {
  return card.window === null ? tokens : Math.min(tokens, card.window);
}

/** Bytes of the cache of so many texts, as cache_bytes of course_lib/model/model_cards.py. */
export function cacheBytes(card, tokens, batch, width) {
  return card.n_layers * numbersPerLayer(card) * tokensKept(card, tokens) * batch * width;
}

/** A whole number from what was typed, from 1 to the largest; null if it is none. */
export function whole(text, largest) {
  const cleaned = String(text).replace(/[\s,_]/g, "");
  if (!/^\d+$/.test(cleaned)) return null;
  const number = Number(cleaned);
  return number >= 1 && number <= largest ? number : null;
}

/** Bytes with a unit that is a power of 1,000, and three digits. */
export function size(bytes) {
  const [unit, name] = UNITS.find(([least]) => bytes >= least) ?? UNITS.at(-1);
  const digits = unit === 1 ? 0 : Math.max(0, 3 - String(Math.floor(bytes / unit)).length);
  return `${(bytes / unit).toFixed(digits)} ${name}`;
}

/** A number with commas between thousands. */
export const grouped = (number) => String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/** The length of a bar, from 0 to 1, on a linear or a logarithmic scale. */
export function share(bytes, largest, logarithmic) {
  if (!logarithmic) return bytes / largest;
  const decades = 5;
  return Math.max(0, 1 + Math.log10(bytes / largest) / decades);
}

/** How one model's bytes come about, and what heads of their own would take. */
export function sentence(card, tokens, batch, width) {
  const kept = tokensKept(card, tokens);
  const numbers =
    card.d_latent === null
      ? `2 · ${card.n_kv_heads} · ${card.d_head}`
      : `(${card.d_latent} + ${card.d_rotary})`;
  const bytes = cacheBytes(card, tokens, batch, width);
  const own = (2 * card.n_heads * card.d_head) / numbersPerLayer(card);
  const parts = [
    `${card.name}, ${card.kind}: ${card.n_layers} layers · ${numbers} numbers · ${grouped(kept)} tokens` +
      ` · ${grouped(batch)} ${batch === 1 ? "text" : "texts"} · ${width} ${width === 1 ? "byte" : "bytes"}` +
      ` = ${grouped(bytes)} bytes.`,
  ];
  if (own > 1) parts.push(`With a key head for each of its ${card.n_heads} heads: ${Number(own.toPrecision(3))} times as much.`);
  if (kept < tokens) parts.push(`Its layers look back ${grouped(card.window)} tokens, and keep no more.`);
  if (tokens > card.context_length) parts.push(`It was made for ${grouped(card.context_length)} tokens.`);
  parts.push(`Numbers: ${card.source}.`);
  return parts.join(" ");
}
