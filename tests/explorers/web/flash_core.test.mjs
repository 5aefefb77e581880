// Run by Node: node --test tests/explorers/web
import assert from "node:assert/strict";
import { test } from "node:test";

import * as core from "../../../course_lib/explorers/web/flash_core.mjs";

const known = (...totals) => totals.map((total) => ({ largest: "1", total, mixed: "2" }));
const data = {
  labels: ["it", "was", "<b>"],
  plain: 12345,
  steps: [
    { kind: "fetch", rows: [0, 2], bytes: 4, known: known("0", "0"), said: ["it begins", "was begins"] },
    { kind: "tile", rows: [0, 2], columns: [0, 2], bytes: 8, known: known("a", "b"), said: ["it reads", "was reads"],
      scores: [["5", "−∞"], ["6", "7"]] },
    { kind: "write", rows: [0, 2], bytes: 10, known: known("a", "b").map((row) => ({ ...row, output: "9" })), said: ["", ""] },
    { kind: "fetch", rows: [2, 3], bytes: 12, known: known("0"), said: ["<b> begins"] },
    { kind: "tile", rows: [2, 3], columns: [0, 2], bytes: 16, known: known("c"), said: ["<b> reads"], scores: [["1", "2"]] },
    { kind: "tile", rows: [2, 3], columns: [2, 3], bytes: 1800, known: known("d"), said: ["<b> reads"], scores: [["3"]] },
  ],
};

test("a step that does not exist becomes the nearest one", () => {
  assert.deepEqual([-1, 0, 3, 6, Infinity].map((step) => core.clampStep(data, step)), [0, 0, 3, 5, 5]);
});

test("a square is ahead, then now with its score or hidden, then past; or never read", () => {
  const kinds = (i, j) => [0, 1, 2].map((at) => core.square(data, at, i, j).kind);
  assert.deepEqual(kinds(1, 0), ["ahead", "now", "past"]);
  assert.deepEqual(kinds(0, 1), ["ahead", "hidden", "past"]);
  assert.deepEqual(kinds(0, 2), ["never", "never", "never"]);
  assert.deepEqual(core.square(data, 1, 1, 0), { kind: "now", text: "6" });
  assert.deepEqual(core.square(data, 5, 2, 2), { kind: "now", text: "3" });
  assert.equal(core.square(data, 4, 2, 1).text, "2");
  assert.equal(core.square(data, 5, 2, 1).text, "");
});

test("what is kept of a query is the last that was known, with its output once it is written", () => {
  assert.equal(core.kept(data, 1, 1).total, "b");
  assert.equal(core.kept(data, 1, 1).output, "");
  assert.equal(core.kept(data, 4, 1).output, "9");
  assert.deepEqual(core.kept(data, 2, 2), { largest: "", total: "", mixed: "", output: "" });
  assert.equal(core.kept(data, 4, 2).total, "c");
});

test("a query is worked on, done, or waits", () => {
  assert.equal(core.working(data, 1, 1), true);
  assert.equal(core.working(data, 3, 1), false);
  assert.equal(core.explained(data, 1, 1), "was reads");
  assert.equal(core.explained(data, 4, 0), "it is done: its output has been written.");
  assert.equal(core.explained(data, 0, 2), "<b> waits for its turn.");
});

test("bytes are told beside those of plain attention", () => {
  assert.equal(core.moving(data, 5), "1,800 bytes moved so far; plain attention moves 12,345 in all");
});
