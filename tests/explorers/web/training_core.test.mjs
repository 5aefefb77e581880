// Run by Node: node --test tests/explorers/web
import assert from "node:assert/strict";
import { test } from "node:test";

import * as core from "../../../course_lib/explorers/web/training_core.mjs";

const words = (state, asked) => core.buttonsIn(state, asked).map(({ word, enabled }) => [word, enabled]);

test("a state has its two buttons, and while a wish is open none can be pressed", () => {
  assert.deepEqual(words("training", ""), [["Pause", true], ["Stop", true]]);
  assert.deepEqual(words("training", "pause"), [["Pause", false], ["Stop", false]]);
  assert.deepEqual(words("paused", ""), [["Resume", true], ["Stop", true]]);
  for (const state of ["stopped", "failed"]) assert.deepEqual(words(state, ""), [["Resume", true], ["Stop", false]]);
  for (const state of ["opening", "closing", "finished"]) assert.deepEqual(words(state, ""), [["Pause", false], ["Stop", false]]);
  assert.deepEqual(core.buttonsIn("paused", "").map(({ wish }) => wish), ["resume", "stop"]);
});

test("a state is told in words, and a wish before it is followed", () => {
  assert.equal(core.stateText("training", ""), "Training");
  assert.equal(core.stateText("training", "pause"), "Pausing after this step …");
  assert.equal(core.spoken("paused", { step: "7 of 23", validation: "1.9" }), "Paused, step 7 of 23, validation loss 1.9");
  assert.equal(core.spoken("training", {}), "Training");
});

test("what comes after a step is joined to what was there, also if it comes twice or with a gap", () => {
  const rows = [[1, 4], [2, 3]];
  assert.deepEqual(core.joined(rows, 2, [[3, 2]]), [[1, 4], [2, 3], [3, 2]]);
  assert.deepEqual(core.joined([...rows, [3, 2]], 2, [[3, 2], [4, 1]]), [[1, 4], [2, 3], [3, 2], [4, 1]]);
  assert.deepEqual(core.joined(rows, 8, [[9, 1]]), [[1, 4], [2, 3], [9, 1]]);
});

test("ticks are at 1, 2 or 5 times a power of ten, within the range", () => {
  assert.deepEqual(core.ticks(0, 60, 6), [0, 10, 20, 30, 40, 50, 60]);
  assert.deepEqual(core.ticks(1.87, 4.21, 5), [2, 2.5, 3, 3.5, 4]);
  assert.deepEqual(core.ticks(0, 0.015, 2), [0, 0.01]);
  assert.deepEqual(core.ticks(0, 0.3, 3), [0, 0.1, 0.2, 0.3]);
  assert.deepEqual(core.ticks(2, 2, 5), [2]);
});

test("the axis has room for means and validation, and half of a batch's jump", () => {
  const [low, high] = core.lossRange([[1, 9, 4, 0], [2, 2.5, 3, 0], [3, null, null, 0]], [[3, 2]]);
  assert.ok(low < 2 && low > 1.7 && high > 6.5 && high < 7);
  assert.deepEqual(core.lossRange([], []), [0, 1]);
  assert.ok(core.lossRange([[1, 0, 0, 0]], [])[0] === 0);
});

test("a loss that is no number breaks the line", () => {
  assert.deepEqual(core.strokes([[1, 5], [2, 4], [3, null], [4, NaN], [5, 2]]), [[[1, 5], [2, 4]], [[5, 2]]]);
  assert.deepEqual(core.strokes([]), []);
});

test("a scale goes both ways, and a range of nothing is no division by zero", () => {
  assert.equal(core.scale(0, 10, 100, 200)(5), 150);
  assert.equal(core.scale(10, 0, 100, 200)(5), 150);
  assert.equal(core.scale(3, 3, 0, 9)(3), 0);
});

test("the nearest point is found, and keys move along the points", () => {
  assert.equal(core.nearest([[2], [4], [9]], 5), 1);
  assert.equal(core.nearest([], 5), -1);
  assert.equal(core.movedAlong("ArrowLeft", 5, 100), 4);
  assert.equal(core.movedAlong("ArrowRight", 99, 100), 99);
  assert.equal(core.movedAlong("PageUp", 50, 100), 55);
  assert.equal(core.movedAlong("PageDown", 2, 100), 0);
  assert.deepEqual(["Home", "End"].map((key) => core.movedAlong(key, 5, 100)), [0, 99]);
  assert.equal(core.movedAlong("x", 5, 100), null);
  assert.equal(core.movedAlong("Home", -1, 0), null);
});

test("a point is told in words, with its validation where there is one", () => {
  const point = [1200, 1.98765, 1.9, 0.0123456];
  assert.equal(core.pointText(point, []), "step 1,200: loss of this batch 1.988, mean 1.900, rate 0.012");
  assert.equal(
    core.pointText([7, null, 2, 1e-5], [[7, 1.5]]),
    "step 7: loss of this batch no number, mean 2.000, validation 1.500, rate 0.00001",
  );
});
