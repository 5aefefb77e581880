// The position explorer: three panels, each with its controls, its pictures and what they say in words.

const FONT = "12px sans-serif";
const GAP = 16; // CSS pixels between two pictures
const NARROW = 560; // below it pictures stand one under the other
const DIAL = 34;

// ---- drawing ----

/** Axes in a canvas; returns what draws into them, in the numbers of the axes. */
function axes(canvas, { width, height, x, y, title, below, colours }) {
  const drawing = context(canvas, width, height);
  const [left, right, top, bottom] = [42, 8, 22, 34];
  const across = (value) => left + ((value - x[0]) / (x[1] - x[0])) * (width - left - right);
  const up = (value) => height - bottom - ((value - y[0]) / (y[1] - y[0])) * (height - top - bottom);
  drawing.font = FONT;
  drawing.lineWidth = 1;
  drawing.strokeStyle = css(colours.dark ? [255, 255, 255] : [0, 0, 0], 0.12);
  drawing.fillStyle = colours.weak;
  drawing.textBaseline = "middle";
  const rule = (x1, y1, x2, y2) => {
    drawing.beginPath();
    drawing.moveTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
    drawing.lineTo(Math.round(x2) + 0.5, Math.round(y2) + 0.5);
    drawing.stroke();
  };
  drawing.textAlign = "right";
  for (const at of ticks(...y, height < 180 ? 4 : 6)) {
    rule(left, up(at), width - right, up(at));
    drawing.fillText(String(at).replace("-", "−"), left - 6, up(at));
  }
  drawing.textAlign = "center";
  for (const at of ticks(...x, width / 70)) {
    rule(across(at), top, across(at), height - bottom);
    drawing.fillText(String(at).replace("-", "−"), across(at), height - bottom + 11);
  }
  drawing.fillText(below, (left + width - right) / 2, height - 8);
  drawing.fillStyle = colours.text;
  drawing.textAlign = "left";
  drawing.fillText(title, left, 10, width - left - right);
  const clip = (draw) => {
    drawing.save();
    drawing.beginPath();
    drawing.rect(left, top - 2, width - left - right, height - top - bottom + 4);
    drawing.clip();
    draw();
    drawing.restore();
  };
  return {
    drawing,
    across,
    up,
    valueAt: (pixel) => x[0] + ((pixel - left) / (width - left - right)) * (x[1] - x[0]),
    curve(numbers, first, colour, thick = 2, dash = []) {
      clip(() => {
        drawing.strokeStyle = colour;
        drawing.lineWidth = thick;
        drawing.setLineDash(dash);
        drawing.beginPath();
        numbers.forEach((number, i) => drawing.lineTo(across(first + i), up(number)));
        drawing.stroke();
      });
    },
    mark(at, ...numbers) {
      drawing.strokeStyle = drawing.fillStyle = colours.mark;
      drawing.setLineDash([3, 3]);
      rule(across(at), top, across(at), height - bottom);
      drawing.setLineDash([]);
      for (const number of numbers) {
        drawing.beginPath();
        drawing.arc(across(at), up(number), 4, 0, TURN);
        drawing.fill();
      }
    },
  };
}

/** An arrow from a middle to a point. */
function arrow(drawing, x1, y1, x2, y2, colour, thick) {
  const angle = Math.atan2(y2 - y1, x2 - x1);
  const head = Math.min(3.5 * thick + 2, Math.hypot(x2 - x1, y2 - y1));
  drawing.strokeStyle = drawing.fillStyle = colour;
  drawing.lineWidth = thick;
  drawing.beginPath();
  drawing.moveTo(x1, y1);
  drawing.lineTo(x2 - head * 0.7 * Math.cos(angle), y2 - head * 0.7 * Math.sin(angle));
  drawing.stroke();
  drawing.beginPath();
  drawing.moveTo(x2, y2);
  for (const side of [-0.4, 0.4]) drawing.lineTo(x2 - head * Math.cos(angle + side), y2 - head * Math.sin(angle + side));
  drawing.fill();
}

/** Small dials in rows, hands for each: [[x, y, colour], …], y upwards, 1 is the rim. Returns dials a row. */
function dials(canvas, { width, hands, chosen, colours }) {
  const rows = Math.ceil((hands.length * (DIAL + 4)) / Math.max(width, DIAL + 4));
  const inRow = Math.ceil(hands.length / rows); // rows of one length
  const height = Math.ceil(hands.length / inRow) * (DIAL + 16);
  const drawing = context(canvas, inRow * (DIAL + 4), height);
  drawing.font = "10px sans-serif";
  drawing.textAlign = "center";
  hands.forEach((some, i) => {
    const x = (i % inRow) * (DIAL + 4) + DIAL / 2 + 2;
    const y = Math.floor(i / inRow) * (DIAL + 16) + DIAL / 2 + 2;
    drawing.strokeStyle = i === chosen ? colours.mark : colours.weak;
    drawing.lineWidth = i === chosen ? 2 : 0.75;
    drawing.beginPath();
    drawing.arc(x, y, DIAL / 2 - 1, 0, TURN);
    drawing.stroke();
    const reach = DIAL / 2 - 3;
    for (const [right, up, colour, thick = 1.75] of some) {
      const long = Math.max(Math.hypot(right, up), 1e-9);
      arrow(drawing, x, y, x + (right / long) * reach, y - (up / long) * reach, colour, thick);
    }
    drawing.fillStyle = i === chosen ? colours.mark : colours.weak;
    drawing.fillText(String(i), x, y + DIAL / 2 + 10);
  });
  return inRow;
}

/** Numbers from −limit to limit as colours: one canvas pixel each. */
function colourMap(rows, colourOf) {
  const canvas = element("canvas", { width: rows[0].length, height: rows.length });
  const pixels = new ImageData(rows[0].length, rows.length);
  rows.flat().forEach((value, i) => pixels.data.set([...colourOf(value), 255], 4 * i));
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  return canvas;
}

// ---- parts of a panel ----

function slider(name, most, changed) {
  const input = element("input", { type: "range", min: "0", max: String(most), "aria-label": name });
  const shown = element("output", { class: "course-number" });
  input.addEventListener("input", () => changed(Number(input.value)));
  return {
    part: element("label", { class: "course-slider" }, element("span", {}, name), input, shown),
    show(value, text = String(value)) {
      input.value = String(value);
      input.setAttribute("aria-valuetext", text);
      shown.textContent = text;
    },
  };
}

function button(text, clicked) {
  const made = element("button", { type: "button" }, text);
  made.addEventListener("click", clicked);
  return made;
}

const picture = (label) => element("canvas", { role: "img", "aria-label": label });

const says = () => element("div", { "aria-live": "polite", class: "course-said" });

const tellLines = (part, lines) => part.replaceChildren(...lines.map((line) => element("div", {}, line)));

/** Widths of a left and a right column: side by side where there is room. */
function columns(width, share, most = Infinity) {
  if (width < NARROW) return [width, width];
  const left = Math.min(Math.round(width * share), most);
  return [left, width - left - GAP];
}

// ---- the three panels ----

class SinusoidalPanel {
  constructor(data, choose) {
    this.data = data;
    this.numbers = data.sinusoidal;
    const pairs = this.numbers.wavelengths.length;
    this.pair = slider("pair", pairs - 1, (pair) => choose({ pair }));
    this.pair.part.classList.add("course-wide");
    this.position = slider("position", data.length - 1, (position) => choose({ position }));
    this.map = picture("all vectors: a row for each position, a column for each dimension");
    this.reader = element(
      "div",
      { tabindex: "0", role: "group", "aria-label": "vectors: arrow keys choose position and pair" },
      this.map,
    );
    this.wave = picture("sine and cosine of the pair by position");
    this.product = picture("dot product with the vector of the position, by distance");
    this.dials = picture("a clock for each pair, with its hand at the position");
    this.said = says();
    this.part = element(
      "div",
      {},
      element("div", { class: "course-row" }, this.pair.part, this.position.part),
      element("div", { class: "course-maps" }, this.reader, element("div", { class: "course-stack" }, this.wave, this.product)),
      element("div", { class: "course-weak" }, "The same as clocks: a hand for each pair, from fast to slow, at this position."),
      this.dials,
      this.said,
    );
    this.reader.addEventListener("keydown", (event) => {
      const { position, pair } = this.chosen;
      const to = moved(event.key, position, pair, data.length, pairs);
      if (!to) return;
      event.preventDefault();
      event.stopPropagation();
      choose({ position: to[0], pair: to[1] });
    });
    this.map.addEventListener("click", (event) => {
      const [x, y, width, height] = this.place;
      choose({
        pair: ((event.offsetX - x) / width) * pairs - 0.5,
        position: ((event.offsetY - y) / height) * data.length - 0.5,
      });
    });
    this.dials.addEventListener("click", (event) => choose({ pair: dialAt(event, this.inRow, pairs) }));
    this.product.addEventListener("click", (event) => {
      choose({ position: this.chosen.position + this.plot.valueAt(event.offsetX) });
    });
  }

  draw(chosen, width, colours) {
    const { numbers, data } = this;
    const { pair, position } = chosen;
    this.chosen = chosen;
    this.pair.show(pair, `${pair}: wavelength ${amount(numbers.wavelengths[pair])}`);
    this.position.show(position);
    const [left, right] = columns(width, 0.4);
    this.drawMap(left, width < NARROW ? 220 : 320, chosen, colours);
    const ofPair = [0, 1].map((side) => numbers.vectors.map((row) => row[2 * pair + side]));
    const common = { width: right, height: 160, colours };
    const wave = axes(this.wave, {
      ...common,
      x: [0, data.length - 1],
      y: [-1.15, 1.15],
      title: `dimensions ${2 * pair} (sine) and ${2 * pair + 1} (cosine, dashed)`,
      below: "position",
    });
    wave.curve(ofPair[0], 0, css(colours.line));
    wave.curve(ofPair[1], 0, css(colours.otherLine), 2, [6, 3]);
    wave.mark(position, ofPair[0][position], ofPair[1][position]);
    const row = numbers.products[position];
    this.plot = axes(this.product, {
      ...common,
      x: [-position, data.length - 1 - position],
      y: spread(...numbers.products),
      title: `dot product with the vector of position ${position}`,
      below: `position − ${position}`,
    });
    this.plot.curve(row, -position, css(colours.line));
    this.plot.mark(0, row[position]);
    this.inRow = dials(this.dials, {
      width,
      colours,
      chosen: pair,
      hands: numbers.wavelengths.map((_, i) => [[...numbers.vectors[position].slice(2 * i, 2 * i + 2), css(colours.line)]]),
    });
    tellLines(this.said, sinusoidalText(data, chosen));
  }

  drawMap(width, height, { pair, position }, colours) {
    const { vectors } = this.numbers;
    const drawing = context(this.map, width, height);
    const [x, y] = [42, 22];
    const [wide, high] = [width - x - 8, height - y - 34];
    this.place = [x, y, wide, high];
    if (this.colours !== colours) {
      const colourOf = (value) => mix(colours.paper, value < 0 ? colours.otherLine : colours.line, Math.abs(value));
      [this.colours, this.pixels] = [colours, colourMap(vectors, colourOf)];
    }
    drawing.imageSmoothingEnabled = false;
    drawing.drawImage(this.pixels, x, y, wide, high);
    const [column, row] = [wide / vectors[0].length, high / vectors.length];
    drawing.strokeStyle = colours.mark;
    drawing.lineWidth = 2;
    drawing.strokeRect(x + 2 * pair * column, y, 2 * column, high);
    drawing.strokeRect(x, y + position * row, wide, Math.max(row, 3));
    drawing.font = FONT;
    drawing.textBaseline = "middle";
    drawing.fillStyle = colours.text;
    drawing.fillText("all vectors: blue above 0, orange below", x, 10, wide);
    drawing.fillStyle = colours.weak;
    drawing.textAlign = "right";
    for (const at of ticks(0, vectors.length - 1)) drawing.fillText(String(at), x - 6, y + (at + 0.5) * row);
    drawing.textAlign = "center";
    for (const at of ticks(0, vectors[0].length - 1, wide / 50)) drawing.fillText(String(at), x + (at + 0.5) * column, y + high + 11);
    drawing.fillText("dimension (position downwards)", x + wide / 2, height - 8);
  }
}

/** By which angle to shift one arrow's label, so that it does not lie on the other's. */
function labelsApart([a, b], [c, d]) {
  const between = Math.atan2(a * d - b * c, a * c + b * d); // from the first to the second
  return Math.abs(between) < 0.4 ? (between > 0 ? -0.4 : 0.4) + between : 0;
}

function dialAt(event, inRow, count) {
  const at = Math.floor(event.offsetY / (DIAL + 16)) * inRow + Math.floor(event.offsetX / (DIAL + 4));
  return Math.min(at, count - 1);
}

class RotaryPanel {
  constructor(data, choose, name) {
    this.data = data;
    this.numbers = data.rotary;
    const pairs = this.numbers.frequencies.length;
    this.words = element("select", { "aria-label": "query and key" });
    this.words.append(...this.numbers.words.map((one) => element("option", {}, name(one.name))));
    this.words.addEventListener("change", () => choose({ words: this.words.selectedIndex }));
    this.pair = slider("pair", pairs - 1, (pair) => choose({ pair }));
    this.m = slider("query at m", data.length - 1, (m) => choose({ m }));
    this.n = slider("key at n", data.length - 1, (n) => choose({ n }));
    const both = (by) => () => choose(together(this.chosen, by, data.length));
    this.earlier = button("◂ both one earlier", both(-1));
    this.later = button("both one later ▸", both(1));
    this.plane = picture("the pair of the query and of the key as arrows, turned by their positions");
    this.part_ = picture("dot product of this pair by distance");
    this.whole = picture("dot product of all pairs by distance");
    this.dials = picture("a dial for each pair: the hands of query and key");
    this.score = element("div", { class: "course-score", "aria-live": "polite" });
    this.said = says();
    const label = element("label", { class: "course-slider" }, element("span", {}, "query and key"), this.words);
    this.part = element(
      "div",
      {},
      element("div", { class: "course-row" }, label, this.pair.part),
      element("div", { class: "course-row" }, this.m.part, this.n.part, this.earlier, this.later),
      this.score,
      element("div", { class: "course-maps" }, this.plane, element("div", { class: "course-stack" }, this.part_, this.whole)),
      element("div", { class: "course-weak" }, "All pairs, from fast to slow: query blue, key orange."),
      this.dials,
      this.said,
    );
    this.dials.addEventListener("click", (event) => choose({ pair: dialAt(event, this.inRow, pairs) }));
    for (const [canvas, plot] of [[this.part_, "partPlot"], [this.whole, "wholePlot"]]) {
      canvas.addEventListener("click", (event) => {
        const most = data.length - 1;
        const distance = Math.min(Math.max(Math.round(this[plot].valueAt(event.offsetX)), -most), most);
        choose(atDistance(this.chosen, distance, data.length));
      });
    }
  }

  draw(chosen, width, colours) {
    const { data, numbers } = this;
    const { pair, m, n } = chosen;
    const words = numbers.words[chosen.words];
    this.chosen = chosen;
    this.words.selectedIndex = chosen.words;
    this.pair.show(pair);
    this.m.show(m);
    this.n.show(n);
    this.earlier.disabled = Math.min(m, n) === 0;
    this.later.disabled = Math.max(m, n) === data.length - 1;
    const [left, right] = columns(width, 0.42, 320);
    this.drawPlane(Math.min(left, 320), words, chosen, colours);
    const distance = m - n;
    const at = distance + data.length - 1;
    const common = { width: right, height: 160, x: [1 - data.length, data.length - 1], below: "distance m − n", colours };
    this.partPlot = axes(this.part_, { ...common, y: spread(words.parts[pair]), title: `dot product of pair ${pair}` });
    this.partPlot.curve(words.parts[pair], 1 - data.length, css(colours.line));
    this.partPlot.mark(distance, words.parts[pair][at]);
    this.wholePlot = axes(this.whole, { ...common, y: spread(words.sums), title: `dot product of all ${words.parts.length} pairs` });
    this.wholePlot.curve(words.sums, 1 - data.length, css(colours.line));
    this.wholePlot.mark(distance, words.sums[at]);
    this.inRow = dials(this.dials, {
      width,
      colours,
      chosen: pair,
      hands: words.queries.map((query, i) => [
        [...words.keys[i][n], css(colours.otherLine), 3.5],
        [...query[m], css(colours.line)],
      ]),
    });
    const [score, places] = scoreLines(data, chosen);
    this.score.replaceChildren(element("strong", {}, score), element("span", { class: "course-weak" }, places));
    tellLines(this.said, rotaryText(data, chosen));
  }

  drawPlane(side, { queries, keys }, { pair, m, n }, colours) {
    const drawing = context(this.plane, side, side);
    const middle = side / 2;
    const arrows = [
      [keys[pair][0], keys[pair][n], colours.otherLine, `k at ${n}`, 7], // seen also under the query's
      [queries[pair][0], queries[pair][m], colours.line, `q at ${m}`, 3],
    ];
    const longest = Math.max(...arrows.map(([, to]) => Math.hypot(...to)), 1e-9);
    const scale = (middle - 44) / longest;
    drawing.strokeStyle = css(colours.dark ? [255, 255, 255] : [0, 0, 0], 0.15);
    drawing.beginPath();
    drawing.moveTo(8, middle);
    drawing.lineTo(side - 8, middle);
    drawing.moveTo(middle, 8);
    drawing.lineTo(middle, side - 8);
    drawing.stroke();
    drawing.font = "13px sans-serif";
    drawing.textAlign = "center";
    drawing.textBaseline = "middle";
    const apart = labelsApart(keys[pair][n], queries[pair][m]);
    for (const [start, to, colour, name, thick] of arrows) {
      const [long, angle] = [Math.hypot(...to) * scale, Math.atan2(to[1], to[0])];
      drawing.lineWidth = 1;
      drawing.strokeStyle = css(colour, 0.4);
      drawing.beginPath();
      drawing.arc(middle, middle, Math.max(long, 0), 0, TURN);
      drawing.stroke();
      arrow(drawing, middle, middle, middle + start[0] * scale, middle - start[1] * scale, css(colour, 0.3), 2);
      arrow(drawing, middle, middle, middle + to[0] * scale, middle - to[1] * scale, css(colour), thick);
      drawing.fillStyle = css(colour);
      const aside = angle + (name[0] === "k" ? apart : 0);
      drawing.fillText(name, middle + (long + 22) * Math.cos(aside), middle - (long + 14) * Math.sin(aside));
    }
    drawing.textAlign = "left";
    drawing.fillStyle = colours.weak;
    drawing.font = FONT;
    drawing.fillText(`pair ${pair}; pale: not turned`, 4, 10);
  }
}

class AlibiPanel {
  constructor(data, choose) {
    this.data = data;
    this.choose = choose;
    this.counts = element("div", { class: "course-row", role: "group", "aria-label": "number of heads" }, element("span", {}, "heads"));
    this.countButtons = data.alibi.map((one, heads) => button(String(one.n_heads), () => choose({ heads })));
    this.counts.append(...this.countButtons);
    this.rule = element("div", { class: "course-weak" });
    this.slopes = element("div", { class: "course-row", role: "group", "aria-label": "head, and its slope" });
    this.penalty = picture("what each head adds to a score, by distance");
    this.map = picture("the weights of each head, by distance, where all scores are equal");
    this.bars = picture("the weights of the chosen head by distance");
    this.said = says();
    this.part = element(
      "div",
      {},
      this.counts,
      this.rule,
      this.slopes,
      element("div", { class: "course-maps" }, this.penalty, element("div", { class: "course-stack" }, this.map, this.bars)),
      this.said,
    );
    this.map.addEventListener("click", (event) => choose({ head: Math.floor((event.offsetY - 22) / this.row) }));
  }

  draw(chosen, width, colours) {
    const numbers = this.data.alibi[chosen.heads];
    this.countButtons.forEach((one, heads) => one.setAttribute("aria-pressed", String(heads === chosen.heads)));
    this.rule.textContent = slopesRule(numbers);
    if (this.heads !== chosen.heads) this.listSlopes(numbers, chosen.heads);
    this.slopeButtons.forEach((one, head) => one.setAttribute("aria-pressed", String(head === chosen.head)));
    const [left, right] = columns(width, 0.45);
    const most = this.data.length - 1;
    const penalty = axes(this.penalty, {
      width: left,
      height: 320,
      x: [0, most],
      y: [-8.2, 0.2],
      title: "added to the score, down to −8",
      below: "distance to the token that is read",
      colours,
    });
    numbers.penalties.forEach((row) => penalty.curve(row, 0, css(colours.line, 0.35), 1.25));
    penalty.curve(numbers.penalties[chosen.head], 0, colours.mark, 3);
    this.drawMap(right, numbers, chosen.head, colours);
    const row = numbers.weights[chosen.head];
    const bars = axes(this.bars, {
      width: right,
      height: 160,
      x: [-0.5, most + 0.5],
      y: [0, Math.max(...row) * 1.1],
      title: `weights of head ${chosen.head}`,
      below: "distance to the token that is read",
      colours,
    });
    row.forEach((weight, at) => {
      const [from, to] = [bars.across(at - 0.4), bars.across(at + 0.4)];
      bars.drawing.fillStyle = at < numbers.reach[chosen.head] ? css(colours.line) : css(colours.line, 0.35);
      bars.drawing.fillRect(from, bars.up(weight), Math.max(to - from, 1), bars.up(0) - bars.up(weight));
    });
    tellLines(this.said, alibiText(this.data, chosen));
  }

  listSlopes(numbers, heads) {
    this.heads = heads;
    this.slopeButtons = numbers.slopes.map((slope, head) => {
      const made = button(`${head}: ${slopeName(slope)}`, () => this.choose({ head }));
      made.classList.toggle("course-between", head >= numbers.n_heads - numbers.from_double);
      return made;
    });
    this.slopes.replaceChildren(element("span", {}, "head: slope"), ...this.slopeButtons);
  }

  drawMap(width, { weights, n_heads: heads }, chosen, colours) {
    const height = 160;
    const drawing = context(this.map, width, height);
    const [x, y, wide] = [42, 22, width - 50];
    this.row = (height - y - 4) / heads;
    const pixels = colourMap(weights, (weight) => colours.ink[Math.round(Math.min(weight, 1) * 255)]);
    drawing.imageSmoothingEnabled = false;
    drawing.drawImage(pixels, x, y, wide, this.row * heads);
    drawing.strokeStyle = colours.mark;
    drawing.lineWidth = 2;
    drawing.strokeRect(x, y + chosen * this.row, wide, this.row);
    drawing.font = FONT;
    drawing.textBaseline = "middle";
    drawing.fillStyle = colours.text;
    drawing.fillText("weights of the last token, if all scores are equal", x, 10, wide);
    drawing.fillStyle = colours.weak;
    drawing.textAlign = "right";
    const every = Math.ceil(14 / this.row);
    for (let head = 0; head < heads; head += every) drawing.fillText(`head ${head}`, x - 3, y + (head + 0.5) * this.row, x - 5);
  }
}

// ---- the whole ----

class PositionExplorer {
  constructor(model, root) {
    this.model = model;
    this.root = root;
    this.data = model.get("data");
    const lacking = withoutGlyph(this.data.rotary.words.map((one) => one.name));
    root.classList.add("course-explorer", "course-position");
    this.tabs = element("div", { class: "course-row", role: "tablist", "aria-label": "ways to tell positions" });
    const choose = (changes) => this.choose(changes);
    this.panels = {
      sinusoidal: new SinusoidalPanel(this.data, choose),
      rotary: new RotaryPanel(this.data, choose, (text) => spelled(text, lacking)),
      alibi: new AlibiPanel(this.data, choose),
    };
    root.append(this.tabs, element("div", { class: "course-weak" }, fontNote(lacking)));
    for (const [view, title] of Object.entries(VIEWS)) {
      const tab = element("button", { type: "button", role: "tab" }, title);
      tab.addEventListener("click", () => choose({ view }));
      this.tabs.append(tab);
      this.panels[view].part.setAttribute("role", "tabpanel");
      this.panels[view].part.setAttribute("aria-label", title);
      root.append(this.panels[view].part);
    }
    this.tabs.addEventListener("keydown", (event) => this.onTabKey(event));
    // what a control of ours understands is no short cut of the notebook's
    root.addEventListener("keydown", (event) => event.key !== "Escape" && event.stopPropagation());
    const themed = () => {
      this.colours = null;
      this.draw();
    };
    const resized = () => root.clientWidth !== this.width && this.draw();
    this.stops = [
      listen(model, { selected: () => this.choose({}, { fromKernel: true }) }),
      watch(root, { themed, resized }),
    ];
    this.choose({}, { fromKernel: true });
  }

  close() {
    this.stops.forEach((stop) => stop());
  }

  choose(changes, { fromKernel = false } = {}) {
    const told = this.model.get("selected");
    this.selected = within(this.data, { ...told, ...changes });
    this.draw();
    if (fromKernel) return;
    this.model.set("selected", this.selected);
    this.model.save_changes();
  }

  draw() {
    const { selected, root } = this;
    this.colours ??= theme(root);
    this.width = root.clientWidth;
    [...this.tabs.children].forEach((tab, i) => {
      const chosen = Object.keys(VIEWS)[i] === selected.view;
      tab.setAttribute("aria-selected", String(chosen));
      tab.setAttribute("tabindex", chosen ? "0" : "-1");
    });
    for (const [view, panel] of Object.entries(this.panels)) panel.part.hidden = view !== selected.view;
    this.panels[selected.view].draw(selected, Math.max((this.width || 700) - 4, 280), this.colours);
    Object.assign(root.dataset, selected, { theme: this.colours.dark ? "dark" : "light" });
  }

  onTabKey(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const views = Object.keys(VIEWS);
    const to = Math.min(Math.max(views.indexOf(this.selected.view) + by, 0), views.length - 1);
    this.choose({ view: views[to] });
    this.tabs.children[to].focus();
  }
}

export default {
  render({ model, el }) {
    const explorer = new PositionExplorer(model, el);
    return () => explorer.close();
  },
};
