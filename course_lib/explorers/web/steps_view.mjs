// The step-through of attention: one matrix at a time, with its numbers, and how one of them came about.

class StepThrough {
  constructor(model, root) {
    this.root = root;
    const data = model.get("data");
    const lacking = withoutGlyph(data.labels);
    this.data = { ...data, labels: data.labels.map((label) => spelled(label, lacking)) };
    this.model = model;
    this.names = stepsOf(this.data);
    root.classList.add("course-explorer", "course-steps");
    this.tabs = element("div", { class: "course-row", role: "tablist", "aria-label": "the steps of attention" });
    this.title = element("div", { class: "course-weak" });
    this.table = element("table", { class: "course-matrix" });
    this.said = element("div", { "aria-live": "polite", class: "course-said" });
    const fonts = element("div", { class: "course-weak" }, fontNote(lacking));
    root.append(this.tabs, fonts, this.title, this.table, this.said);
    this.names.forEach((name, at) => {
      const tab = element("button", { type: "button", role: "tab" }, `${at + 1} ${name}`);
      tab.addEventListener("click", () => this.choose({ step: at }));
      this.tabs.append(tab);
    });
    this.tabs.addEventListener("keydown", (event) => this.onTabKey(event));
    this.table.addEventListener("keydown", (event) => this.onCellKey(event));
    const { step, row, column } = model.get("selected");
    this.selected = { step: -1, row, column };
    this.choose({ step });
  }

  choose(changes) {
    const before = this.selected;
    const wanted = { ...before, ...changes };
    const step = Math.min(Math.max(wanted.step, 0), this.names.length - 1);
    this.step = stepOf(this.data, this.names[step]);
    const { matrix } = this.step;
    const row = Math.min(Math.max(wanted.row, 0), matrix.length - 1);
    const column = Math.min(Math.max(wanted.column, 0), matrix[0].length - 1);
    this.selected = { step, row, column };
    if (before.step !== step) this.build();
    this.mark();
    this.model.set("selected", this.selected);
    this.model.save_changes();
  }

  build() {
    const { matrix, title, columns } = this.step;
    [...this.tabs.children].forEach((tab, at) => {
      tab.setAttribute("aria-selected", String(at === this.selected.step));
      tab.setAttribute("tabindex", at === this.selected.step ? "0" : "-1");
    });
    this.title.textContent = title;
    const head = element("tr", {}, element("td"), ...columns.map((name) => element("th", { scope: "col" }, name)));
    this.cells = matrix.map((numbers) => numbers.map((number) => element("td", { tabindex: "-1" }, figure(number))));
    const largest = Math.max(...matrix.flat().map((number) => Math.abs(number ?? 0)), 1e-9);
    this.cells.forEach((cells, i) => cells.forEach((cell, j) => {
      const share = Math.abs(matrix[i][j] ?? 0) / largest;
      cell.style.setProperty("--share", `${Math.round(share * 60)}%`);
      cell.classList.toggle("course-negative", (matrix[i][j] ?? 0) < 0);
      cell.addEventListener("click", () => this.choose({ row: i, column: j }));
    }));
    const rows = this.cells.map((cells, i) => element("tr", {}, element("th", { scope: "row" }, this.data.labels[i]), ...cells));
    this.table.replaceChildren(head, ...rows);
  }

  mark() {
    const { row, column } = this.selected;
    this.cells.forEach((cells, i) => cells.forEach((cell, j) => {
      const chosen = i === row && j === column;
      cell.classList.toggle("course-chosen", chosen);
      cell.setAttribute("tabindex", chosen ? "0" : "-1");
    }));
    this.said.textContent = this.step.text(this.data, row, column);
    Object.assign(this.root.dataset, this.selected, { name: this.names[this.selected.step] });
  }

  onTabKey(event) {
    const to = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose({ step: this.selected.step + to });
    this.tabs.children[this.selected.step].focus();
  }

  onCellKey(event) {
    const to = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose({ row: this.selected.row + to[0], column: this.selected.column + to[1] });
    this.cells[this.selected.row][this.selected.column].focus();
  }
}

export default {
  render({ model, el }) {
    new StepThrough(model, el);
  },
};
