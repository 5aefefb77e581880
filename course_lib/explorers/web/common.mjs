// What several explorers compute: colours, and moves by keyboard. No page, so that Node tests it.

/** A colour between two, [red, green, blue] each: share 0 is the first, 1 the second. */
export function mix(from, to, share) {
  const t = Math.min(Math.max(share, 0), 1);
  return from.map((c, i) => Math.round(c + (to[i] - c) * t));
}

/** Numbers in a CSS colour such as rgb(1, 2, 3) or rgba(1, 2, 3, 0.5); null if there are none. */
export function parseColour(text) {
  const found = /^rgba?\(\s*([\d.]+)[,\s]+([\d.]+)[,\s]+([\d.]+)/.exec(text.trim());
  return found ? found.slice(1, 4).map(Number) : null;
}

/** Whether a background is dark, by its brightness for the eye. */
export function isDark([red, green, blue]) {
  return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
}

/** 256 colours from paper to ink. The square root makes weak weights visible: 0.04 is a fifth. */
export function palette(paper, ink) {
  return Array.from({ length: 256 }, (_, i) => mix(paper, ink, Math.sqrt(i / 255)));
}

/** Where to move in a grid of rows × columns on an arrow key; null for another key. */
export function moved(key, row, column, rows, columns) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (!(key in steps)) return null;
  const [down, right] = steps[key];
  return [
    Math.min(Math.max(row + down, 0), rows - 1),
    Math.min(Math.max(column + right, 0), columns - 1),
  ];
}

/** The code point of a character, as U+5E8A. */
export const codePoint = (character) =>
  `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

const HIDDEN = /^[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]$/u;

/** A character of a running text: what has no form of its own, or turns the text around, as U+202E. */
export function legible(character) {
  return character !== "\n" && HIDDEN.test(character) ? codePoint(character) : character;
}

/** A text with the characters that no font has as their code points, instead of as boxes. */
export function spelled(text, lacking) {
  return [...text].map((one) => (lacking.has(one) ? codePoint(one) : one)).join("");
}

/** What to do about characters that no font has; an empty text if there are none. */
export function fontNote(lacking) {
  if (lacking.size === 0) return "";
  const some = [...lacking].slice(0, 3).map(codePoint).join(", ");
  return (
    `No font here has ${some}${lacking.size > 3 ? " and others" : ""}: they are shown by their code points. ` +
    "Install a font that has them, for Chinese e.g. Noto Sans CJK, and reload the page."
  );
}
