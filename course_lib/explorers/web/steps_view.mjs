// The step-through of attention: one matrix at a time, with its numbers, and how one of them came about.

const largest = (matrix) => Math.max(...matrix.flat().map((number) => Math.abs(number ?? 0)), 1e-9);

/** A cell with a number, the more coloured the larger it is beside `most`. */
function numberCell(number, most) {
  const cell = element("td", {}, figure(number));
  cell.style.setProperty("--share", `${Math.round((Math.abs(number ?? 0) / most) * 60)}%`);
  cell.classList.toggle("course-negative", (number ?? 0) < 0);
  return cell;
}

class StepThrough {
  constructor(model, root) {
    this.root = root;
    const data = model.get("data");
    const lacking = withoutGlyph([...data.labels, ...data.features]);
    const shown = (texts) => texts.map((text) => spelled(text, lacking));
    this.data = { ...data, labels: shown(data.labels), features: shown(data.features) };
    this.model = model;
    this.names = stepsOf(this.data);
    root.classList.add("course-explorer", "course-steps");
    this.tabs = element("div", { class: "course-row", role: "tablist", "aria-label": "the steps of attention" });
    this.title = element("strong");
    this.axes = element("div", { class: "course-weak" });
    this.table = element("table", { class: "course-matrix" });
    this.chosenTitle = element("strong");
    this.madeOf = element("div", { class: "course-weak" }, "the numbers it is made of");
    this.said = element("div", { "aria-live": "polite", class: "course-said" });
    const fonts = element("div", { class: "course-weak" }, fontNote(lacking));
    this.made = element("table", { class: "course-matrix", "aria-label": "what the chosen entry is made of" });
    const whole = element("div", {}, this.title, this.axes, this.table);
    const from = element("div", {}, this.chosenTitle, this.madeOf, this.made, this.said);
    this.panel = element("div", { class: "course-maps", role: "tabpanel" }, whole, from);
    root.append(this.tabs, fonts, this.panel);
    this.names.forEach((name, at) => {
      const tab = element("button", { type: "button", role: "tab" }, `${at + 1} ${name}`);
      tab.addEventListener("click", () => this.choose({ step: at }));
      this.tabs.append(tab);
    });
    this.tabs.addEventListener("keydown", (event) => this.onTabKey(event));
    this.table.addEventListener("keydown", (event) => this.onCellKey(event));
    this.selected = { ...model.get("selected"), step: -1 };
    this.close = listen(model, { selected: () => this.choose(model.get("selected")) });
    this.choose(model.get("selected"));
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
    this.axes.textContent = this.step.axes;
    this.panel.setAttribute("aria-label", this.names[this.selected.step]);
    const head = element("tr", {}, element("td"), ...columns.map((name) => element("th", { scope: "col" }, name)));
    const most = largest(matrix);
    this.cells = matrix.map((numbers) => numbers.map((number) => numberCell(number, most)));
    this.cells.forEach((cells, i) => cells.forEach((cell, j) => {
      cell.addEventListener("click", () => this.choose({ row: i, column: j }));
    }));
    this.rows = this.cells.map((cells, i) => element("tr", {}, element("th", { scope: "row" }, this.data.labels[i]), ...cells));
    this.columns = [...head.querySelectorAll("th")];
    this.table.replaceChildren(head, ...this.rows);
  }

  mark() {
    const { row, column } = this.selected;
    this.cells.forEach((cells, i) => cells.forEach((cell, j) => {
      const chosen = i === row && j === column;
      cell.classList.toggle("course-chosen", chosen);
      cell.setAttribute("tabindex", chosen ? "0" : "-1");
    }));
    this.rows.forEach((one, i) => one.firstChild.classList.toggle("course-chosen", i === row));
    this.columns.forEach((one, j) => one.classList.toggle("course-chosen", j === column));
    this.chosenTitle.textContent = `${this.data.labels[row]} → ${this.step.columns[column]}: ${figure(this.step.matrix[row][column])}`;
    this.showIngredients(row, column);
    this.said.textContent = this.step.text(this.data, row, column);
    Object.assign(this.root.dataset, this.selected, { name: this.names[this.selected.step] });
  }

  showIngredients(row, column) {
    const { columns, rows, counts } = ingredients(this.data, this.names[this.selected.step], row, column);
    const names = columns.map((name) => element("th", { scope: "col" }, name));
    const lines = rows.map(([name, numbers]) => {
      const cells = numbers.map((number) => numberCell(number, largest([numbers])));
      cells[counts]?.classList.add("course-chosen");
      return element("tr", {}, element("th", { scope: "row" }, name), ...cells);
    });
    this.made.replaceChildren(element("tr", {}, element("td"), ...names), ...lines);
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
    const steps = new StepThrough(model, el);
    return () => steps.close();
  },
};
