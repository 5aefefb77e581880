// Attention by tiles: one table of queries and keys, what is kept of each query, and steps back and forth.

const KEPT = ["largest", "total", "mixed", "output"];

class TileByTile {
  constructor(model, root) {
    this.model = model;
    this.root = root;
    const data = model.get("data");
    const lacking = withoutGlyph(data.labels);
    const labels = data.labels.map((label) => spelled(label, lacking));
    this.data = { ...data, labels };
    root.classList.add("course-explorer", "course-flash");
    this.slider = element("input", {
      type: "range", min: "0", max: String(data.steps.length - 1), "aria-label": "step",
    });
    this.slider.addEventListener("input", () => this.choose({ step: Number(this.slider.value) }));
    const go = (name, to) => {
      const button = element("button", { type: "button" }, name);
      button.addEventListener("click", () => this.choose({ step: to(this.selected.step) }));
      return button;
    };
    this.controls = element("div", { class: "course-row" },
      go("Start", () => 0), go("Back", (step) => step - 1), go("Next", (step) => step + 1),
      go("End", () => Infinity), this.slider);
    this.title = element("div", { "aria-live": "polite", class: "course-title" });
    this.table = element("table", { class: "course-matrix", tabindex: "0", "aria-label": "queries, keys, and what is kept" });
    root.addEventListener("keydown", (event) => this.onKey(event)); // also from the slider, before JupyterLab has it
    this.moved = element("div", { class: "course-moved" });
    this.said = element("div", { "aria-live": "polite", class: "course-said" });
    const fonts = element("div", { class: "course-weak" }, fontNote(lacking));
    const help = "Arrow keys: left and right for the steps, up and down for the query explained below the table.";
    root.append(this.controls, fonts, this.title, this.table, this.moved, this.said, element("div", { class: "course-weak" }, help));
    this.build();
    this.selected = model.get("selected");
    this.choose({});
  }

  build() {
    const { labels } = this.data;
    const heads = [...labels.map((label) => element("th", { scope: "col" }, label)),
      ...KEPT.map((name) => element("th", { scope: "col", class: "course-kept" }, name))];
    this.squares = labels.map(() => labels.map(() => element("td")));
    this.sums = labels.map(() => KEPT.map(() => element("td", { class: "course-kept" })));
    this.names = labels.map((label) => element("th", { scope: "row" }, label));
    const rows = labels.map((_, i) => {
      const row = element("tr", {}, this.names[i], ...this.squares[i], ...this.sums[i]);
      row.addEventListener("click", () => this.choose({ row: i }));
      return row;
    });
    this.table.replaceChildren(element("tr", {}, element("td"), ...heads), ...rows);
  }

  choose(changes) {
    const wanted = { ...this.selected, ...changes };
    const last = this.data.labels.length - 1;
    this.selected = { step: clampStep(this.data, wanted.step), row: Math.min(Math.max(wanted.row, 0), last) };
    this.draw();
    this.model.set("selected", this.selected);
    this.model.save_changes();
  }

  draw() {
    const { data } = this;
    const { step, row } = this.selected;
    this.squares.forEach((squares, i) => squares.forEach((cell, j) => {
      const { kind, text } = square(data, step, i, j);
      cell.textContent = text;
      cell.className = `course-${kind}`;
    }));
    this.sums.forEach((cells, i) => {
      const now = kept(data, step, i);
      const before = step > 0 ? kept(data, step - 1, i) : now;
      cells.forEach((cell, at) => {
        cell.textContent = now[KEPT[at]];
        cell.classList.toggle("course-changed", now[KEPT[at]] !== before[KEPT[at]]);
      });
      this.names[i].classList.toggle("course-working", working(data, step, i));
      this.names[i].classList.toggle("course-chosen", i === row);
    });
    this.slider.value = String(step);
    this.title.textContent = `Step ${step + 1} of ${data.steps.length}. ${data.steps[step].title}`;
    this.moved.textContent = moving(data, step);
    this.said.textContent = explained(data, step, row);
    Object.assign(this.root.dataset, this.selected, { kind: data.steps[step].kind, bytes: data.steps[step].bytes });
  }

  onKey(event) {
    const { step, row } = this.selected;
    const change = {
      ArrowLeft: { step: step - 1 }, ArrowRight: { step: step + 1 }, Home: { step: 0 }, End: { step: Infinity },
      ArrowUp: { row: row - 1 }, ArrowDown: { row: row + 1 },
    }[event.key];
    if (!change) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose(change);
  }
}

export default {
  render({ model, el }) {
    new TileByTile(model, el);
  },
};
