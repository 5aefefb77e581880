// The cache calculator: tokens, texts and precision in, a bar for each model out.

class CacheCalculator {
  constructor(model, root) {
    this.root = root;
    this.model = model;
    this.cards = model.get("cards");
    this.widths = model.get("widths");
    this.selected = { ...model.get("selected") };
    root.classList.add("course-explorer", "course-cache");
    this.tokens = this.field("tokens", "tokens a text", LIMITS.tokens);
    this.batch = this.field("batch", "texts at once", LIMITS.batch);
    this.number = element("select", { "aria-label": "precision" });
    this.number.append(...Object.keys(this.widths).map((name) => element("option", { value: name }, name)));
    this.number.value = this.selected.number;
    this.number.addEventListener("change", () => this.choose({ number: this.number.value }));
    this.scale = element("input", { type: "checkbox" });
    this.scale.addEventListener("change", () => this.draw());
    const precision = element("label", {}, "numbers in ", this.number);
    const scale = element("label", {}, this.scale, " logarithmic bars");
    this.error = element("div", { class: "course-error", role: "alert" });
    this.bars = element("div", { class: "course-bars", role: "listbox", "aria-label": "models" });
    this.said = element("div", { "aria-live": "polite", class: "course-said" });
    const inputs = element("div", { class: "course-row" }, this.tokens.label, this.batch.label, precision, scale);
    const pale = element("div", { class: "course-weak" }, "Pale bars: the model was made for shorter texts.");
    root.append(inputs, this.error, this.bars, pale, this.said);
    this.rows = this.cards.map((card, at) => this.row(card, at));
    this.bars.addEventListener("keydown", (event) => this.onKey(event));
    this.draw();
  }

  field(name, text, largest) {
    const input = element("input", { type: "text", inputmode: "numeric", size: "9", style: "flex: none" });
    input.value = grouped(this.selected[name]);
    input.addEventListener("input", () => {
      const number = whole(input.value, largest);
      input.setAttribute("aria-invalid", String(number === null));
      this.error.textContent = number === null ? `${text}: give a whole number from 1 to ${grouped(largest)}` : "";
      if (number !== null) this.choose({ [name]: number });
    });
    return { input, label: element("label", {}, `${text} `, input) };
  }

  row(card, at) {
    const bar = element("span", { class: "course-bar" });
    const text = element("span", {});
    const made = element(
      "div",
      { class: "course-bar-row", role: "option", tabindex: "-1" },
      element("span", { class: "course-bar-name" }, card.name),
      element("span", { class: "course-weak" }, card.kind),
      element("span", { class: "course-bar-track" }, bar, text),
    );
    made.addEventListener("click", () => this.choose({ model: at }));
    this.bars.append(made);
    return { made, bar, text };
  }

  choose(changes) {
    Object.assign(this.selected, changes);
    this.draw();
    this.model.set("selected", { ...this.selected });
    this.model.save_changes();
  }

  draw() {
    const { tokens, batch, number, model } = this.selected;
    const width = this.widths[number];
    const all = this.cards.map((card) => cacheBytes(card, tokens, batch, width));
    const largest = Math.max(...all);
    this.rows.forEach(({ made, bar, text }, at) => {
      bar.style.width = `${(70 * share(all[at], largest, this.scale.checked)).toFixed(2)}%`;
      text.textContent = size(all[at]);
      made.setAttribute("aria-selected", String(at === model));
      made.setAttribute("tabindex", at === model ? "0" : "-1");
      made.classList.toggle("course-beyond", tokens > this.cards[at].context_length);
    });
    this.said.textContent = sentence(this.cards[model], tokens, batch, width);
    Object.assign(this.root.dataset, { tokens, batch, number, model: this.cards[model].name, bytes: all[model] });
  }

  onKey(event) {
    const place = moved(event.key, this.selected.model, 0, this.cards.length, 1);
    if (!place || !event.key.endsWith("Up") && !event.key.endsWith("Down")) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose({ model: place[0] });
    this.rows[place[0]].made.focus();
  }
}

export default {
  render({ model, el }) {
    new CacheCalculator(model, el);
  },
};
