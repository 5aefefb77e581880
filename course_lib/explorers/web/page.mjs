// What the front ends share on the page: parts, canvases, the theme's colours, and what changes.

/** A tag with attributes and children; strings become text nodes, so that no text is ever markup. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** The drawing context of a canvas of this size in CSS pixels, sharp on every screen. */
export function context(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const drawing = canvas.getContext("2d");
  drawing.setTransform(ratio, 0, 0, ratio, 0, 0);
  return drawing;
}

/** The colours of the page's theme: paper, text, and inks for what is more or less than nothing. */
export function theme(root) {
  let node = root;
  let paper = null;
  while (node && !paper) {
    const colour = getComputedStyle(node).backgroundColor;
    if (!/(?:, 0\)|transparent)$/.test(colour)) paper = parseColour(colour);
    node = node.parentElement;
  }
  paper ??= [255, 255, 255];
  const dark = isDark(paper);
  const [ink, other] = dark
    ? [[120, 190, 255], [255, 170, 80]]
    : [[8, 48, 107], [166, 54, 3]];
  return {
    dark,
    paper,
    text: dark ? "#eee" : "#111",
    weak: dark ? "#999" : "#666",
    mark: dark ? "#ffd54f" : "#d81b60",
    line: ink,
    otherLine: other,
    ink: palette(paper, ink),
    other: palette(paper, other),
  };
}

/** A colour for canvas or CSS, with its opacity. */
export const css = (colour, alpha = 1) => `rgba(${colour.join(",")},${alpha})`;

/**
 * Calls back when the theme changes, and when the width of a part does; returns what ends both.
 *
 * JupyterLab hides the page while the theme changes, and shows it in the next frame: by the frame
 * after that a part has its width again, or is hidden for so long that showing it is a new width.
 */
export function watch(part, { themed, resized }) {
  const sizes = new ResizeObserver(resized);
  sizes.observe(part);
  let frame = 0;
  const themes = new MutationObserver(() => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      frame = requestAnimationFrame(themed);
    });
  });
  const attributeFilter = ["data-jp-theme-name", "data-jp-theme-light", "class"];
  themes.observe(document.body, { attributes: true, attributeFilter });
  return () => {
    sizes.disconnect();
    themes.disconnect();
    cancelAnimationFrame(frame);
  };
}

/** Handles changes of an anywidget model until the returned function is called. */
export function listen(model, handlers) {
  const entries = Object.entries(handlers);
  entries.forEach(([name, handler]) => model.on(`change:${name}`, handler));
  return () => entries.forEach(([name, handler]) => model.off(`change:${name}`, handler));
}

const glyphs = new Map(); // character → whether a font has it

/** The characters of some texts that no font of this browser has: it would draw the same box for each. */
export function withoutGlyph(texts) {
  const canvas = element("canvas", { width: 24, height: 24 });
  const drawing = canvas.getContext("2d", { willReadFrequently: true });
  drawing.font = "16px sans-serif";
  drawing.textBaseline = "top";
  const drawn = (character) => {
    drawing.clearRect(0, 0, 24, 24);
    drawing.fillText(character, 2, 2);
    return drawing.getImageData(0, 0, 24, 24).data.join();
  };
  const box = drawn("\u0378"); // no character, so no font has it
  const lacking = new Set();
  for (const character of new Set(texts.flatMap((text) => [...text]))) {
    if (character <= "~") continue;
    if (!glyphs.has(character)) glyphs.set(character, drawn(character) !== box);
    if (!glyphs.get(character)) lacking.add(character);
  }
  return lacking;
}
