// The training dashboard: two curves that grow, how far it is, what the model writes, and two buttons.

const EDGE = { left: 54, right: 12, top: 10 };
const LOSS = { height: 236, bottom: 8 };
const RATE_PART = { height: 104, bottom: 36 };
const PATIENCE = 3000; // milliseconds until we say why a wish has not been followed yet
const TILES = [
  ["step", "step"],
  ["loss", "loss (mean of 20 steps)"],
  ["validation", "validation loss"],
  ["rate", "learning rate"],
  ["speed", "speed"],
  ["left", "time left"],
];
const BUSY =
  "The step has to end first, and the cell that the kernel is busy with. " +
  "■ in the notebook's toolbar ends a cell that waits for the run, and stops the run.";

class Dashboard {
  constructor(model, root) {
    this.model = model;
    this.root = root;
    this.asked = "";
    this.cursor = null; // a step, or null where nothing is pointed at
    this.build();
    this.takeWords();
    this.takeSamples();
    this.takeCurve();
    this.takeState();
    const words = () => this.takeWords();
    const ends = [
      listen(model, {
        state: () => this.takeState(),
        progress: () => this.takeProgress(),
        curve: () => this.takeCurve(),
        more: () => this.takeMore(),
        plan: () => this.draw(),
        samples: () => this.takeSamples(),
        heading: words,
        notes: words,
        ending: words,
        message: words,
      }),
      watch(this.curves, {
        themed: () => {
          this.colours = null;
          this.draw();
        },
        resized: () => this.draw(),
      }),
    ];
    this.close = () => {
      ends.forEach((end) => end());
      clearTimeout(this.timer);
    };
  }

  // ---- the page

  build() {
    this.heading = element("div", { class: "course-weak" });
    this.state = element("strong", { class: "course-state" });
    this.bar = element("progress", { max: "1", "aria-label": "steps done" });
    this.buttons = [0, 1].map((at) => {
      const button = element("button", { type: "button" });
      // the second click of a double one would take back what the first one wished
      button.addEventListener("click", (event) => event.detail < 2 && this.ask(at));
      return button;
    });
    const row = element("div", { class: "course-row" }, this.state, this.bar, ...this.buttons);
    this.hint = element("div", { class: "course-weak", role: "status" });
    this.error = element("div", { role: "alert", class: "course-error" });
    this.tiles = Object.fromEntries(TILES.map(([name]) => [name, element("div", { class: "course-number" })]));
    const tiles = TILES.map(([name, title]) => element("div", {}, element("div", { class: "course-weak" }, title), this.tiles[name]));
    const figures = element("div", { class: "course-figures" }, ...tiles);
    this.loss = element("canvas", { "aria-hidden": "true" });
    this.rate = element("canvas", { "aria-hidden": "true" });
    this.curves = element(
      "div",
      {
        class: "course-curves",
        tabindex: "0",
        role: "group",
        "aria-label": "loss and learning rate of each step: arrow keys move along, Escape leaves",
      },
      this.loss,
      this.rate,
    );
    this.curves.addEventListener("keydown", (event) => this.onKey(event));
    this.curves.addEventListener("pointermove", (event) => this.onPoint(event));
    this.curves.addEventListener("pointerleave", () => this.moveTo(null));
    this.point = element("div", { class: "course-weak course-point", "aria-live": "polite" });
    this.samples = element("div", {
      class: "course-samples",
      tabindex: "0",
      role: "region",
      "aria-label": "what the model writes, the latest first",
    });
    this.fonts = element("div", { class: "course-weak" });
    this.written = element("div", { class: "course-right" }, this.samples, this.fonts);
    const halves = element("div", { class: "course-halves" }, element("div", {}, this.curves, this.point), this.written);
    this.ending = element("div", { class: "course-ending" });
    this.notes = element("div", { class: "course-weak course-ending" });
    this.said = element("div", { class: "course-hidden", "aria-live": "polite" });
    this.root.classList.add("course-explorer", "course-training");
    this.root.append(this.heading, row, this.hint, this.error, figures, halves, this.ending, this.notes, this.said);
  }

  // ---- what the person wishes

  ask(at) {
    const { wish, enabled } = buttonsIn(this.model.get("state"), this.asked)[at];
    if (!enabled) return;
    this.asked = wish;
    this.model.send({ wish });
    this.timer = setTimeout(() => {
      this.hint.textContent = BUSY;
    }, PATIENCE);
    this.showState();
  }

  onKey(event) {
    const rows = this.points;
    const at = this.cursor === null ? rows.length - 1 : nearest(rows, this.cursor);
    const to = event.key === "Escape" ? null : movedAlong(event.key, at, rows.length);
    if (to === null && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    this.moveTo(to === null ? null : rows[to][0]);
  }

  onPoint(event) {
    const { left } = this.loss.getBoundingClientRect();
    const at = nearest(this.points, this.toStep(event.clientX - left));
    this.moveTo(at < 0 ? null : this.points[at][0]);
  }

  moveTo(step) {
    if (step === this.cursor) return;
    this.cursor = step;
    this.draw();
  }

  // ---- what comes from the kernel

  takeState() {
    clearTimeout(this.timer);
    this.asked = "";
    this.hint.textContent = "";
    this.showState();
    this.takeProgress();
    this.said.textContent = spoken(this.model.get("state"), this.model.get("progress"));
  }

  showState() {
    const state = this.model.get("state");
    this.state.textContent = stateText(state, this.asked);
    buttonsIn(state, this.asked).forEach(({ word, enabled }, at) => {
      this.buttons[at].textContent = word;
      this.buttons[at].setAttribute("aria-disabled", String(!enabled)); // and so keeps the focus
    });
    Object.assign(this.root.dataset, { state, asked: this.asked });
  }

  takeProgress() {
    const progress = this.model.get("progress");
    for (const [name, cell] of Object.entries(this.tiles)) cell.textContent = progress[name] ?? "–";
    this.bar.value = (progress.done ?? 0) / this.model.get("steps");
    Object.assign(this.root.dataset, { step: progress.done ?? 0, steps: this.model.get("steps") });
  }

  takeCurve() {
    const { points = [], validation = [] } = this.model.get("curve");
    Object.assign(this, { points, validation });
    this.takeMore();
  }

  takeMore() {
    const { after, points = [], validation = [] } = this.model.get("more");
    const last = points.at(-1)?.[0] ?? 0;
    if (last > (this.points.at(-1)?.[0] ?? 0)) {
      this.points = joined(this.points, after, points);
      this.validation = joined(this.validation, after, validation);
    }
    this.draw();
  }

  takeSamples() {
    const samples = this.model.get("samples");
    const prompt = this.model.get("prompt");
    const lacking = withoutGlyph([prompt, ...samples.map(({ text }) => text)]);
    const shown = samples.map(({ step, text }) => element(
      "figure",
      {},
      element("figcaption", { class: "course-weak" }, step === 0 ? "before the first step" : `after step ${step.toLocaleString("en")}`),
      element("pre", {}, element("b", {}, spelled(prompt, lacking)), spelled(text, lacking)),
    ));
    this.samples.replaceChildren(...shown.reverse());
    this.fonts.textContent = fontNote(lacking);
    this.written.hidden = samples.length === 0;
    this.root.dataset.samples = samples.length;
  }

  takeWords() {
    this.heading.textContent = this.model.get("heading");
    this.notes.textContent = this.model.get("notes").join("\n");
    this.ending.textContent = this.model.get("ending");
    this.error.textContent = this.model.get("message");
  }

  // ---- pictures

  draw() {
    const width = Math.min(this.curves.clientWidth, 720);
    if (!width) return;
    this.colours ??= theme(this.root);
    const steps = this.model.get("steps");
    this.toX = scale(1, Math.max(steps, 2), EDGE.left, width - EDGE.right);
    this.toStep = scale(EDGE.left, width - EDGE.right, 1, Math.max(steps, 2));
    this.drawLoss(width);
    this.drawRate(width, steps);
    const at = this.cursor === null ? -1 : nearest(this.points, this.cursor);
    this.point.textContent = at < 0 ? "" : pointText(this.points[at], this.validation);
    Object.assign(this.root.dataset, {
      theme: this.colours.dark ? "dark" : "light",
      points: this.points.length,
      validation: this.validation.length,
      cursor: this.cursor ?? "",
    });
  }

  drawLoss(width) {
    const { colours, points, validation } = this;
    const drawing = context(this.loss, width, LOSS.height);
    const [low, high] = lossRange(points, validation);
    const toY = scale(low, high, LOSS.height - LOSS.bottom, EDGE.top);
    this.frame(drawing, width, LOSS, ticks(low, high, 5), toY, "loss (nats per character)");
    drawing.save();
    drawing.beginPath();
    drawing.rect(EDGE.left, EDGE.top, width - EDGE.left, LOSS.height - LOSS.bottom - EDGE.top);
    drawing.clip(); // a single batch may jump out of the picture
    this.line(drawing, points.map((point) => [point[0], point[1]]), toY, css(colours.line, 0.35), 1);
    drawing.restore();
    this.line(drawing, points.map((point) => [point[0], point[MEAN]]), toY, css(colours.line), 2);
    this.line(drawing, validation, toY, css(colours.otherLine), 1.5);
    drawing.fillStyle = css(colours.otherLine);
    for (const [step, loss] of validation) {
      if (Number.isFinite(loss)) this.dot(drawing, this.toX(step), toY(loss), 3.5);
    }
    this.legend(drawing, width);
    this.mark(drawing, LOSS);
  }

  drawRate(width, steps) {
    const plan = this.model.get("plan");
    const drawing = context(this.rate, width, RATE_PART.height);
    const top = Math.max(...plan.map((row) => row[1]), 1e-12);
    const toY = scale(0, top * 1.05, RATE_PART.height - RATE_PART.bottom, EDGE.top);
    this.frame(drawing, width, RATE_PART, ticks(0, top, 2), toY, "learning rate");
    this.line(drawing, plan, toY, css(this.colours.line, 0.35), 1.5);
    this.line(drawing, this.points.map((point) => [point[0], point[RATE]]), toY, css(this.colours.line), 2);
    const last = this.points.at(-1);
    drawing.fillStyle = css(this.colours.line);
    if (last) this.dot(drawing, this.toX(last[0]), toY(last[RATE]), 3.5);
    drawing.fillStyle = this.colours.weak;
    drawing.textAlign = "center";
    drawing.textBaseline = "top";
    for (const step of ticks(0, steps, 6)) {
      if (step >= 1) drawing.fillText(step.toLocaleString("en"), this.toX(step), RATE_PART.height - RATE_PART.bottom + 4);
    }
    drawing.fillText("step", (EDGE.left + width - EDGE.right) / 2, RATE_PART.height - 15);
    this.mark(drawing, RATE_PART);
  }

  frame(drawing, width, { height, bottom }, at, toY, title) {
    drawing.font = "11px sans-serif";
    drawing.lineWidth = 1;
    drawing.fillStyle = this.colours.weak;
    drawing.textAlign = "right";
    drawing.textBaseline = "middle";
    for (const value of at) {
      const y = Math.round(toY(value)) + 0.5;
      drawing.strokeStyle = css(this.colours.dark ? [255, 255, 255] : [0, 0, 0], 0.12);
      drawing.beginPath();
      drawing.moveTo(EDGE.left, y);
      drawing.lineTo(width - EDGE.right, y);
      drawing.stroke();
      drawing.fillText(String(value), EDGE.left - 5, y);
    }
    drawing.save();
    drawing.translate(9, (EDGE.top + height - bottom) / 2);
    drawing.rotate(-Math.PI / 2);
    drawing.textAlign = "center";
    drawing.fillText(title, 0, 0);
    drawing.restore();
  }

  line(drawing, pairs, toY, colour, width) {
    drawing.strokeStyle = colour;
    drawing.lineWidth = width;
    drawing.lineJoin = "round";
    for (const stroke of strokes(pairs)) {
      drawing.beginPath();
      for (const [step, value] of stroke) drawing.lineTo(this.toX(step), toY(value));
      drawing.stroke();
    }
  }

  dot(drawing, x, y, radius) {
    drawing.beginPath();
    drawing.arc(x, y, radius, 0, 2 * Math.PI);
    drawing.fill();
  }

  legend(drawing, width) {
    const entries = [
      ["each batch", css(this.colours.line, 0.35)],
      ["mean of 20 steps", css(this.colours.line)],
      ["validation", css(this.colours.otherLine)],
    ];
    drawing.textAlign = "left";
    entries.forEach(([name, colour], at) => {
      const [x, y] = [width - EDGE.right - 128, EDGE.top + 10 + 16 * at];
      drawing.fillStyle = colour;
      drawing.fillRect(x, y - 1.5, 18, 3);
      drawing.fillStyle = this.colours.text;
      drawing.fillText(name, x + 24, y);
    });
  }

  mark(drawing, { height, bottom }) {
    if (this.cursor === null) return;
    drawing.strokeStyle = this.colours.mark;
    drawing.lineWidth = 1;
    drawing.beginPath();
    drawing.moveTo(this.toX(this.cursor), EDGE.top);
    drawing.lineTo(this.toX(this.cursor), height - bottom);
    drawing.stroke();
  }
}

export default {
  render({ model, el }) {
    const dashboard = new Dashboard(model, el);
    return () => dashboard.close();
  },
};
