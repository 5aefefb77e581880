// The attention explorer: small maps of all heads, one of them large, and the text with lines.

const LINE = 26; // CSS pixels
const LARGE = 320;
const READ = 6; // how many keys are named
const MARGIN = 26; // of the large map, for its axes' names

class AttentionExplorer {
  constructor(model, root) {
    this.model = model;
    this.root = root;
    this.pinned = null;
    this.build();
    this.load();
    const redraw = () => {
      this.colours = null;
      this.drawAll();
    };
    const refit = () => {
      if (this.text.parentElement.clientWidth !== this.room) this.drawAll();
    };
    this.stops = [
      listen(model, {
        weights: () => this.load(),
        selected: () => this.choose({}, { fromKernel: true }),
        message: () => this.tell(),
      }),
      watch(this.text.parentElement, { themed: redraw, resized: refit }),
    ];
  }

  close() {
    this.stops.forEach((stop) => stop());
  }

  // ---- what stands on the page ----

  build() {
    this.field = element("input", { type: "text", "aria-label": "text to read", spellcheck: "false" });
    const form = element("form", { class: "course-row" }, this.field, element("button", {}, "Read"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.model.set("text", this.field.value.replaceAll("⏎", "\n"));
      this.model.save_changes();
    });
    this.models = element("select", { "aria-label": "model" });
    this.models.addEventListener("change", () => this.choose({ model: this.models.selectedIndex }));
    this.pin = element("button", { type: "button" });
    this.pin.addEventListener("click", () => this.togglePin());
    this.pinNote = element("span", { class: "course-weak" });
    const controls = element("div", { class: "course-row" }, this.models, this.pin, this.pinNote);
    this.error = element("div", { role: "alert", class: "course-error" });
    this.fonts = element("div", { class: "course-weak" });
    this.grid = element("div", { class: "course-heads", role: "group", "aria-label": "heads: a row for each layer" });
    this.large = element("canvas", { "aria-hidden": "true" });
    this.text = element("canvas", { "aria-hidden": "true" });
    this.said = element("div", { "aria-live": "polite", class: "course-said" });
    this.reader = element(
      "div",
      { tabindex: "0", role: "group", "aria-label": "tokens: arrow keys choose the one that reads", class: "course-reader" },
      this.text,
    );
    this.reader.addEventListener("keydown", (event) => this.onKey(event));
    this.text.addEventListener("mousemove", (event) => this.onPoint(event));
    this.large.addEventListener("mousemove", (event) => this.onLarge(event));
    const maps = element("div", { class: "course-maps" }, this.grid, this.large);
    this.root.classList.add("course-explorer", "course-attention");
    this.root.append(form, controls, this.error, this.fonts, maps, this.reader, this.said);
  }

  /** Takes weights and labels over from the kernel. */
  load() {
    const labels = this.model.get("labels");
    this.lacking = withoutGlyph(labels);
    this.labels = labels.map((label) => spelled(label, this.lacking));
    this.breaks = this.model.get("breaks");
    this.shapes = this.model.get("models");
    const tokens = this.labels.length;
    this.weights = this.model
      .get("weights")
      .map((view, i) => new Weights(view, { ...this.shapes[i], tokens }));
    this.field.value = this.model.get("text").replaceAll("\n", "⏎");
    this.models.replaceChildren(...this.shapes.map((one) => element("option", {}, one.name)));
    this.models.hidden = this.shapes.length < 2;
    this.cache = new Map();
    this.thumbnails = null;
    if (this.pinned && !this.exists(this.pinned)) this.pinned = null;
    this.buildGrid();
    this.choose({}, { fromKernel: true });
    this.tell();
  }

  exists({ model, layer, head }) {
    const shape = this.shapes[model];
    return Boolean(shape) && layer < shape.layers && head < shape.heads;
  }

  buildGrid() {
    const { layers, heads } = this.shapes[this.model.get("selected").model] ?? this.shapes[0];
    this.cells = [];
    this.grid.replaceChildren();
    this.grid.style.gridTemplateColumns = `auto repeat(${heads + 1}, auto)`;
    for (let column = -1; column <= heads; column += 1) {
      const name = column < 0 ? "" : column < heads ? `head ${column}` : "mean";
      this.grid.append(element("span", { class: "course-weak" }, name));
    }
    for (let layer = 0; layer < layers; layer += 1) {
      this.grid.append(element("span", { class: "course-weak" }, `layer ${layer}`));
      for (let column = 0; column <= heads; column += 1) {
        const head = column < heads ? column : -1;
        const button = element("button", { type: "button", "aria-label": this.nameOf(layer, head) }, element("canvas"));
        button.addEventListener("click", () => this.choose({ layer, head }));
        button.addEventListener("keydown", (event) => this.onGridKey(event, layer, column, layers, heads + 1));
        this.grid.append(button);
        this.cells.push({ button, layer, head });
      }
    }
  }

  nameOf(layer, head) {
    return head < 0 ? `layer ${layer}, mean of its heads` : `layer ${layer}, head ${head}`;
  }

  fullName({ model, layer, head }) {
    const name = this.nameOf(layer, head);
    return this.shapes.length > 1 ? `${this.shapes[model].name}, ${name}` : name;
  }

  tell() {
    this.error.textContent = this.model.get("message");
    this.fonts.textContent = fontNote(this.lacking);
  }

  // ---- what is chosen ----

  choose(changes, { fromKernel = false } = {}) {
    const before = this.selected;
    const wanted = { ...this.model.get("selected"), ...changes };
    const model = Math.min(Math.max(wanted.model, 0), this.shapes.length - 1);
    const { layers, heads } = this.shapes[model];
    this.selected = {
      model,
      layer: Math.min(Math.max(wanted.layer, 0), layers - 1),
      head: Math.min(Math.max(wanted.head, -1), heads - 1),
      query: Math.min(Math.max(wanted.query, 0), this.labels.length - 1),
    };
    if (before && before.model !== model) {
      this.thumbnails = null;
      this.buildGrid();
    }
    if (!fromKernel || JSON.stringify(this.selected) !== JSON.stringify(this.model.get("selected"))) {
      this.model.set("selected", this.selected);
      this.model.save_changes();
    }
    this.models.selectedIndex = model;
    this.drawAll();
  }

  togglePin() {
    const { model, layer, head } = this.selected;
    this.pinned = this.pinned ? null : { model, layer, head };
    this.drawAll();
  }

  mapOf({ model, layer, head }) {
    const key = `${model}/${layer}/${head}`;
    if (!this.cache.has(key)) this.cache.set(key, this.weights[model].map(layer, head));
    return this.cache.get(key);
  }

  shownMap() {
    const map = this.mapOf(this.selected);
    return this.pinned ? difference(map, this.mapOf(this.pinned)) : map;
  }

  onKey(event) {
    const { query } = this.selected;
    const last = this.labels.length - 1;
    const next = {
      ArrowLeft: Math.max(query - 1, 0),
      ArrowRight: Math.min(query + 1, last),
      ArrowUp: neighbour(this.places, query, -1),
      ArrowDown: neighbour(this.places, query, 1),
      Home: 0,
      End: last,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose({ query: next });
  }

  onGridKey(event, row, column, rows, columns) {
    const to = moved(event.key, row, column, rows, columns);
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    this.cells[to[0] * columns + to[1]].button.focus();
  }

  onPoint(event) {
    const token = tokenAt(this.places, event.offsetX, event.offsetY - this.top, LINE);
    if (token >= 0 && token !== this.selected.query) this.choose({ query: token });
  }

  onLarge(event) {
    const row = Math.floor(((event.offsetY - MARGIN) / LARGE) * this.labels.length);
    if (row >= 0 && row < this.labels.length && row !== this.selected.query) this.choose({ query: row });
  }

  // ---- pictures ----

  drawAll() {
    if (!this.labels) return;
    const started = performance.now();
    this.colours ??= Object.assign(theme(this.root), { fresh: true });
    if (this.colours.fresh) {
      this.thumbnails = null;
      this.colours.fresh = false;
      this.root.dataset.theme = this.colours.dark ? "dark" : "light";
    }
    this.drawThumbnails();
    const map = this.shownMap();
    this.drawLarge(map);
    this.drawText(map);
    this.speak(map);
    this.root.dataset.repaintMs = (performance.now() - started).toFixed(1);
    Object.assign(this.root.dataset, this.selected);
    this.root.dataset.pinned = this.pinned ? `${this.pinned.model}/${this.pinned.layer}/${this.pinned.head}` : "";
  }

  picture(map) {
    const side = this.labels.length;
    const canvas = element("canvas");
    canvas.width = canvas.height = side;
    canvas.getContext("2d").putImageData(new ImageData(paint(map, this.colours), side, side), 0, 0);
    return canvas;
  }

  drawThumbnails() {
    for (const { button, layer, head } of this.cells) {
      const { selected } = this;
      button.setAttribute("aria-pressed", String(layer === selected.layer && head === selected.head));
      if (this.thumbnails) continue;
      const side = 52;
      const drawing = context(button.firstChild, side, side);
      drawing.imageSmoothingEnabled = this.labels.length > side;
      drawing.drawImage(this.picture(this.mapOf({ model: selected.model, layer, head })), 0, 0, side, side);
    }
    this.thumbnails = true;
  }

  drawLarge(map) {
    const { colours, labels, selected } = this;
    const drawing = context(this.large, LARGE + MARGIN, LARGE + MARGIN);
    const key = `${selected.model}/${selected.layer}/${selected.head}/${this.root.dataset.theme}/${JSON.stringify(this.pinned)}`;
    if (this.largeKey !== key || this.largeMap !== labels) {
      this.largePicture = this.picture(map);
      [this.largeKey, this.largeMap] = [key, labels];
    }
    drawing.imageSmoothingEnabled = false;
    drawing.drawImage(this.largePicture, MARGIN, MARGIN, LARGE, LARGE);
    const side = LARGE / labels.length;
    drawing.strokeStyle = colours.weak;
    drawing.lineWidth = 1;
    drawing.strokeRect(MARGIN + 0.5, MARGIN + 0.5, LARGE - 1, LARGE - 1);
    drawing.strokeStyle = colours.mark;
    drawing.lineWidth = 1.5;
    drawing.strokeRect(MARGIN, MARGIN + selected.query * side, LARGE, Math.max(side, 2));
    drawing.fillStyle = colours.text;
    drawing.textAlign = "center";
    drawing.textBaseline = "middle";
    if (side >= 9) {
      drawing.font = `${Math.min(side, 13)}px sans-serif`;
      labels.forEach((label, i) => {
        drawing.fillText(label, MARGIN - 10, MARGIN + (i + 0.5) * side, 20);
        drawing.fillText(label, MARGIN + (i + 0.5) * side, MARGIN - 10, side);
      });
    } else {
      drawing.font = "12px sans-serif";
      drawing.fillText("key: the token read →", MARGIN + LARGE / 2, MARGIN / 2);
      drawing.rotate(-Math.PI / 2);
      drawing.fillText("← query: the token that reads", -(MARGIN + LARGE / 2), MARGIN / 2);
    }
  }

  drawText(map) {
    const { colours, labels, selected } = this;
    this.room = this.text.parentElement.clientWidth || 700;
    const font = "15px ui-monospace, monospace";
    const measure = this.text.getContext("2d");
    measure.font = font;
    this.top = 34; // room for lines above the first line of text
    const widths = labels.map((label) => Math.ceil(measure.measureText(label).width) + 4);
    this.places = flow(widths, this.breaks, this.room - 8, LINE);
    const height = this.places.at(-1).y + LINE + this.top + 4;
    const drawing = context(this.text, this.room, height);
    drawing.font = font;
    drawing.textBaseline = "middle";
    const row = map.subarray(selected.query * labels.length, (selected.query + 1) * labels.length);
    const at = (i) => this.places[i];
    row.forEach((weight, i) => {
      const colour = weight < 0 ? colours.otherLine : colours.line;
      drawing.fillStyle = css(colour, Math.min(0.75 * Math.sqrt(Math.abs(weight)), 1));
      drawing.fillRect(at(i).x, at(i).y + this.top, at(i).width, LINE - 3);
    });
    labels.forEach((label, i) => {
      drawing.fillStyle = Math.abs(row[i]) > 0.35 && !colours.dark ? "#fff" : colours.text;
      drawing.fillText(label, at(i).x + 2, at(i).y + this.top + LINE / 2 - 1);
    });
    for (const [key, weight] of strongest(map, labels.length, selected.query, 24, 0.02)) {
      this.drawArc(drawing, at(selected.query), at(key), weight);
    }
    const reader = at(selected.query);
    drawing.strokeStyle = colours.mark;
    drawing.lineWidth = 2;
    drawing.strokeRect(reader.x + 1, reader.y + this.top, reader.width - 2, LINE - 3);
  }

  drawArc(drawing, from, to, weight) {
    const [x1, x2] = [from.x + from.width / 2, to.x + to.width / 2];
    const [y1, y2] = [from.y + this.top, to.y + this.top];
    const height = Math.min(8 + Math.abs(x1 - x2) / 8, this.top - 2);
    drawing.strokeStyle = css(weight < 0 ? this.colours.otherLine : this.colours.line, 0.25 + 0.75 * Math.abs(weight));
    drawing.lineWidth = 1 + 4 * Math.abs(weight);
    drawing.beginPath();
    drawing.moveTo(x1, y1);
    drawing.bezierCurveTo(x1, y1 - height, x2, y2 - height, x2, y2);
    drawing.stroke();
  }

  speak(map) {
    const isDifference = Boolean(this.pinned);
    const pairs = strongest(map, this.labels.length, this.selected.query, READ, 0.01);
    const where = this.fullName(this.selected);
    this.said.textContent = `${where}: ${describe(this.labels, this.selected.query, pairs, { isDifference })}`;
    this.pin.textContent = isDifference ? "End the comparison" : "Compare others with this head";
    this.pinNote.textContent = isDifference ? `minus ${this.fullName(this.pinned)}` : "";
  }
}

export default {
  render({ model, el }) {
    const explorer = new AttentionExplorer(model, el);
    return () => explorer.close();
  },
};
