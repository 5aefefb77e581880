// Run by Node: node --test tests/explorers/web
import assert from "node:assert/strict";
import { test } from "node:test";

import * as core from "../../../course_lib/explorers/web/sampling_core.mjs";

test("a probability takes little room, and never reads as 0 or 1 where it is not", () => {
  assert.deepEqual([0, 0.0049, 0.005, 0.414, 0.99, 0.9951, 1].map(core.share),
    ["0", "<.01", ".01", ".41", ".99", ">.99", "1"]);
});

test("the scale holds all values, and has few tops", () => {
  assert.deepEqual([[0.01], [0.05, 0.02], [0.051], [0.19], [0.3], [0.51], [1.0000001], []].map(core.ceiling),
    [0.05, 0.05, 0.1, 0.2, 0.5, 1, 1, 0.05]);
});

test("the slider of k reaches each small number, and its end is no filter", () => {
  const steps = core.kSteps(63);
  assert.deepEqual(steps.slice(0, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
  assert.equal(steps.at(-1), 63);
  assert.ok(core.kSteps(3002).length < 60);
  assert.deepEqual(core.kSteps(1), [1]);
  assert.ok(steps.every((step, i) => i === 0 || step > steps[i - 1]));
  assert.equal(steps[core.kStep(steps, 5)], 5);
  assert.equal(core.kStep(steps, null), steps.length - 1);
  assert.equal(core.kStep(steps, 9999), steps.length - 1);
});

test("a bar says what it was, what temperature made of it, and what removed it", () => {
  const bar = { label: "e", raw: 0.18, heated: 0.22, final: 0.25, fate: "kept" };
  assert.equal(core.barText(bar, 0.8), "“e”: .18 as the model gave it, .22 at temperature 0.8, drawn with .25");
  assert.equal(core.barText({ ...bar, fate: "top-k" }, 1), "“e”: .18 as the model gave it, removed by top-k");
  assert.equal(core.othersText({ count: 39, kept: 0, raw: 0.1, final: 0 }),
    "39 others, together .10 as the model gave it; 0 of them left, drawn with 0");
});

test("what is left and who took the rest is told, and nothing of who took nothing", () => {
  const removed = { temperature: { count: 0, heated: 0 }, "top-k": { count: 51, heated: 0.11 }, "top-p": { count: 3, heated: 0.09 } };
  assert.equal(core.keptText({ kept: 9, of: 63, removed }),
    "9 of 63 characters can come next. Removed: top-k 51, together .11; top-p 3, together .09.");
  const none = Object.fromEntries(Object.keys(removed).map((name) => [name, { count: 0, heated: 0 }]));
  assert.equal(core.keptText({ kept: 63, of: 63, removed: none }), "63 of 63 characters can come next. Nothing is removed.");
  assert.match(core.keptText({ kept: 1, of: 63, removed: { ...none, temperature: { count: 62, heated: 0 } } }),
    /^1 of 63 characters can come next. Removed: temperature 62\.$/);
});

test("a choice has its place, also where the settings of now would not allow it", () => {
  const drawn = { label: "L", rank: 0, final: 0.85, fate: "kept" };
  assert.equal(core.drawnText(drawn), "“L” came: the likeliest, drawn with .85.");
  assert.equal(core.drawnText({ ...drawn, rank: 4, fate: "top-p" }),
    "“L” came: number 5 of the likeliest, removed by the settings of now.");
});
