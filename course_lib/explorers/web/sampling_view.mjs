// The sampling playground: sliders, the bars of the next character, and a text that grows.

const SETTINGS = {
  temperature: { name: "temperature", most: 2, step: 0.05 },
  top_k: { name: "top-k" },
  top_p: { name: "top-p", least: 0.05, most: 1, step: 0.05 },
};
const LETTERS = { temperature: "T", "top-k": "k", "top-p": "p" };
let made = 0; // so that each label finds its own field

/** JupyterLab takes Enter and arrow keys for itself, unless the part with the focus says this. */
const keepKeys = (part) => part.setAttribute("data-lm-suppress-shortcuts", "true");

/** Enter in a field, which JupyterLab otherwise takes for itself, so that the field hears of none. */
function onEnter(field, handler) {
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    event.stopPropagation();
    handler();
  });
}

class SamplingPlayground {
  constructor(model, root) {
    Object.assign(this, { model, root, id: (made += 1), at: 0, chars: [] });
    this.asked = { ...model.get("settings") };
    this.steps = kSteps(model.get("state").bars.of);
    root.classList.add("course-explorer", "course-sampling");
    this.error = element("div", { role: "alert", class: "course-error" });
    this.note = element("div", { class: "course-weak" });
    this.fonts = element("div", { class: "course-weak" });
    this.said = element("div", { "aria-live": "polite", class: "course-said" });
    root.append(this.buildPrompt(), this.buildSettings(), this.buildButtons(), this.error, this.note);
    root.append(this.buildChart(), this.buildLegend(), this.fonts, this.said, this.buildText());
    this.showSettings();
    this.draw();
    root.querySelectorAll("input, select, button, [tabindex]").forEach(keepKeys);
    this.stop = listen(model, { state: () => this.draw() });
  }

  close() {
    this.stop();
    if (this.state.writing) this.model.send({ do: "stop" });
  }

  // ---- what stands on the page ----

  buildPrompt() {
    this.prompt = element("input", { type: "text", "aria-label": "prompt (⏎ is a line break)", spellcheck: "false", maxlength: "2000" });
    const breaks = element("button", { type: "button", "aria-label": "insert a line break", title: "insert a line break" }, "⏎");
    breaks.addEventListener("click", () => {
      this.prompt.setRangeText("⏎", this.prompt.selectionStart, this.prompt.selectionEnd, "end");
      this.prompt.focus();
    });
    const again = element("button", { title: "back to the prompt and the seed" }, "Start over");
    const form = element("form", { class: "course-row" }, element("span", {}, "prompt"), this.prompt, breaks, again);
    this.prompt.addEventListener("change", () => this.ask({ prompt: this.typedPrompt() }));
    onEnter(this.prompt, () => form.requestSubmit());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask({ prompt: this.typedPrompt() });
      this.send("start_over");
    });
    return form;
  }

  typedPrompt() {
    const typed = this.prompt.value.replaceAll("⏎", "\n");
    return typed.toWellFormed?.() ?? typed;
  }

  buildSettings() {
    this.fields = {};
    this.sliders = {};
    const rows = Object.entries(SETTINGS).map(([key, { name, least = 0, most, step }]) => {
      const range = { min: String(least), max: String(most), step: String(step) };
      if (key === "top_k") Object.assign(range, { min: "0", max: String(this.steps.length - 1), step: "1" });
      const slider = element("input", { type: "range", "aria-label": `${name} slider`, ...range });
      slider.addEventListener("input", () => {
        this.fields[key].value = this.fromSlider(key);
        this.ask({ [key]: this.fields[key].value });
      });
      this.sliders[key] = slider;
      return this.labelled(key, name, slider, key === "temperature" ? "" : "off");
    });
    return element("div", { class: "course-settings" }, ...rows);
  }

  labelled(key, name, slider, placeholder) {
    const id = `course-sampling-${this.id}-${key}`;
    const field = element("input", { type: "text", inputmode: "decimal", id, placeholder, maxlength: "24", autocomplete: "off" });
    const typed = () => this.ask({ [key]: field.value });
    field.addEventListener("change", typed);
    onEnter(field, typed);
    this.fields[key] = field;
    const row = element("div", { class: "course-setting" }, element("label", { for: id }, name));
    row.append(...(slider ? [slider] : []), field);
    return row;
  }

  buildButtons() {
    this.go = element("button", { type: "button", class: "course-main" });
    this.go.addEventListener("click", () => this.send(this.state.writing ? "stop" : "write"));
    const one = element("button", { type: "button" }, "One character");
    one.addEventListener("click", () => this.send("write", { length: 1 }));
    const seed = this.labelled("seed", "seed", null, "");
    const names = ["slow", "readable", "fast"];
    this.pace = element("select", { "aria-label": "speed of writing" }, ...names.map((name) => element("option", {}, name)));
    this.pace.addEventListener("change", () => this.ask({ pace: this.pace.value }));
    const speed = element("div", { class: "course-setting" }, element("span", {}, "speed"), this.pace);
    return element("div", { class: "course-row" }, this.go, one, seed, speed);
  }

  buildChart() {
    this.scale = element("div", { class: "course-scale course-weak", "aria-hidden": "true" });
    this.bars = element("div", { class: "course-bars", role: "group", "aria-label": "the next character, the likeliest first: arrow keys choose a bar" });
    this.bars.addEventListener("keydown", (event) => this.onBarKey(event));
    this.columns = [];
    return element("div", { class: "course-chart" }, this.scale, this.bars);
  }

  buildLegend() {
    const parts = [
      ["course-raw", "as the model gave it"],
      ["course-heated", "drawn from, at this temperature"],
      ["course-final", "gained from those removed"],
      ["course-gone", "removed: T by temperature, k by top-k, p by top-p"],
    ];
    return element("div", { class: "course-legend course-weak", "aria-hidden": "true" },
      ...parts.map(([name, text]) => element("span", {}, element("i", { class: name }), text)));
  }

  buildText() {
    this.begun = element("span", { class: "course-prompt" });
    this.written = element("span");
    this.caret = element("span", { class: "course-caret", "aria-hidden": "true" }, "▌");
    this.text = element("div", { class: "course-text", tabindex: "0", role: "group", "aria-label": "the text: arrow keys look back at each choice" });
    this.text.append(this.begun, this.written, this.caret);
    this.text.addEventListener("keydown", (event) => this.onTextKey(event));
    this.written.addEventListener("click", (event) => {
      if (event.target.dataset.at) this.look(Number(event.target.dataset.at));
    });
    return this.text;
  }

  // ---- what is wanted ----

  fromSlider(key) {
    const { value } = this.sliders[key];
    if (key === "top_k") return Number(value) === this.steps.length - 1 ? "" : String(this.steps[value]);
    return key === "top_p" && Number(value) === 1 ? "" : value;
  }

  ask(changes) {
    this.asked = { ...this.asked, ...changes };
    this.model.set("settings", this.asked);
    this.model.save_changes();
    this.showSliders();
  }

  /** Tells the kernel to do something, with the settings, which might still be on their way. */
  send(what, more = {}) {
    this.model.send({ do: what, settings: this.asked, ...more });
  }

  look(place) {
    const last = this.chars.length;
    this.wanted = Math.min(Math.max(place, 0), last);
    this.send("look", { place: this.wanted });
  }

  onTextKey(event) {
    const here = this.wanted ?? this.state.place ?? this.chars.length;
    const next = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: this.chars.length }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (!this.state.writing) this.look(next);
  }

  onBarKey(event) {
    const last = this.columns.length - 1;
    const next = { ArrowLeft: Math.max(this.at - 1, 0), ArrowRight: Math.min(this.at + 1, last), Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.pointAt(next);
    this.columns[next].column.focus();
  }

  pointAt(index) {
    this.at = index;
    this.columns.forEach(({ column }, i) => column.setAttribute("tabindex", i === index ? "0" : "-1"));
    this.said.textContent = this.columns[index].column.getAttribute("aria-label");
  }

  // ---- what is shown ----

  showSettings() {
    this.prompt.value = this.asked.prompt.replaceAll("\n", "⏎");
    for (const key of Object.keys(this.fields)) this.fields[key].value = this.asked[key];
    this.pace.value = this.asked.pace;
    this.showSliders();
  }

  showSliders() {
    for (const [key, slider] of Object.entries(this.sliders)) {
      const typed = this.asked[key].trim();
      if (key === "top_k") slider.value = String(kStep(this.steps, typed === "" ? null : Number(typed)));
      else slider.value = typed === "" ? "1" : typed;
      slider.setAttribute("aria-valuetext", typed === "" ? "off" : typed);
    }
  }

  draw() {
    this.state = this.model.get("state");
    this.wanted = null;
    const { bars, writing, message, note, place } = this.state;
    this.error.textContent = message;
    this.note.textContent = note;
    this.go.textContent = writing ? "Stop" : "Write";
    this.drawBars(bars);
    this.drawText();
    this.fonts.textContent = fontNote(this.lacking);
    this.said.textContent = writing ? "Writing …" : [bars.drawn ? drawnText(this.spell(bars.drawn)) : "", keptText(bars)].join(" ").trim();
    const { temperature, top_k: topK, top_p: topP } = this.state;
    Object.assign(this.root.dataset, { writing, temperature, topK, topP, kept: bars.kept });
    Object.assign(this.root.dataset, { place: place ?? "next", written: this.chars.length, drawn: bars.drawn?.label ?? "" });
  }

  spell(bar) {
    return { ...bar, label: spelled(bar.label, this.lacking) };
  }

  drawBars({ bars, others, drawn }) {
    this.lacking = withoutGlyph(bars.map((bar) => bar.label));
    const top = ceiling(bars.flatMap(({ raw, heated, final }) => [raw, heated, final]));
    this.scale.replaceChildren(...[top, top / 2, 0].map((mark) => element("span", {}, mark === 0 ? "0" : String(mark).replace("0.", "."))));
    const all = bars.map((bar) => this.spell(bar));
    if (others.count) all.push({ ...others, label: `+${others.count}`, fate: others.kept ? "kept" : "others" });
    while (this.columns.length > all.length) this.columns.pop().column.remove();
    while (this.columns.length < all.length) this.columns.push(this.newColumn(this.columns.length));
    all.forEach((bar, i) => {
      const rest = i === bars.length;
      const isDrawn = drawn ? (rest ? drawn.rank >= i : drawn.rank === i) : false;
      this.fill(this.columns[i], bar, { top, rest, isDrawn });
    });
    this.at = Math.min(this.at, all.length - 1);
    this.columns.forEach(({ column }, i) => column.setAttribute("tabindex", i === this.at ? "0" : "-1"));
  }

  newColumn(index) {
    const part = (name) => element("div", { class: name });
    const parts = { number: part("course-number"), tower: part("course-tower"), fate: part("course-fate"), label: part("course-label") };
    parts.final = part("course-final");
    parts.heated = part("course-heated");
    parts.raw = part("course-raw");
    parts.tower.append(parts.final, parts.heated, parts.raw);
    parts.column = element("div", { class: "course-bar", role: "img" }, parts.number, parts.tower, parts.label, parts.fate);
    parts.column.addEventListener("mouseenter", () => {
      if (!this.state.writing) this.pointAt(index);
    });
    keepKeys(parts.column);
    this.bars.append(parts.column);
    return parts;
  }

  fill(parts, bar, { top, rest, isDrawn }) {
    const { label, raw, heated, final, fate } = bar;
    const height = (value) => `${(100 * Math.min(value / top, 1)).toFixed(2)}%`;
    const kept = fate === "kept";
    parts.final.style.height = height(final);
    parts.heated.style.height = height(kept ? Math.min(heated, final) : heated);
    parts.heated.className = kept ? "course-heated" : "course-gone";
    parts.raw.style.height = height(raw);
    parts.tower.classList.toggle("course-cut", rest && Math.max(raw, final) > top);
    const shown = kept ? final : heated;
    parts.number.textContent = shown < 0.005 ? "" : share(shown);
    parts.label.textContent = label;
    parts.fate.textContent = LETTERS[fate] ?? "";
    parts.column.classList.toggle("course-rest", rest);
    parts.column.classList.toggle("course-drawn", isDrawn);
    const text = rest ? othersText(bar) : barText(bar, this.state.temperature);
    parts.column.setAttribute("aria-label", text);
    parts.column.setAttribute("title", text);
    Object.assign(parts.column.dataset, { token: label, raw, heated, final, fate });
  }

  drawText() {
    const { prompt, text, place } = this.state;
    this.begun.textContent = [...prompt].map(legible).join("");
    const chars = [...text];
    const same = chars.length >= this.chars.length && this.chars.every((one, i) => one === chars[i]);
    if (!same) this.written.replaceChildren();
    for (let i = same ? this.chars.length : 0; i < chars.length; i += 1) {
      this.written.append(element("span", { "data-at": i }, legible(chars[i])));
    }
    this.chars = chars;
    this.here?.classList.remove("course-here");
    this.here = place === null ? null : this.written.children[place];
    this.here?.classList.add("course-here");
    this.caret.hidden = place !== null;
    if (place === null || place === chars.length - 1) this.text.scrollTop = this.text.scrollHeight;
  }
}

export default {
  render({ model, el }) {
    const explorer = new SamplingPlayground(model, el);
    return () => explorer.close();
  },
};
