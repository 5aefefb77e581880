// Run by Node: node --test tests/explorers/web
import assert from "node:assert/strict";
import { test } from "node:test";

import * as core from "../../../course_lib/explorers/web/steps_core.mjs";

const data = {
  labels: ["it", "<b>"],
  query: [[8, 0], [0, -1]],
  key: [[0, 1], [1, 0.5]],
  value: [[1], [3]],
  score: [[0, 8], [-1, -0.5]],
  scaled: [[0, 5.6569], [-0.7071, -0.3536]],
  masked: [[0, null], [-0.7071, -0.3536]],
  weights: [[1, 0], [0.4125, 0.5875]],
  output: [[1], [2.175]],
};

test("numbers have the digits they need, a true minus, and −∞", () => {
  assert.deepEqual([8, -1, 0.5, 5.6569, null, -Infinity, 1e-9].map((x) => core.figure(x)),
    ["8", "−1", "0.50", "5.66", "−∞", "−∞", "0"]);
});

test("each step says from which numbers an entry was made", () => {
  assert.equal(core.scoreText(data, 1, 1), "<b> asks, <b> offers: 0·1 + (−1)·0.50 = −0.50");
  assert.equal(core.scaleText(data, 0, 1), "8 / √2 = 5.66");
  assert.equal(core.maskText(data, 0, 1), "it may not read <b>: −∞ in place of 5.66");
  assert.equal(core.maskText(data, 1, 0), "<b> may read it: −0.71 stays");
  assert.equal(core.normaliseText(data, 0, 0), "e^0 / (e^0 + 0) = 1");
  assert.equal(core.normaliseText(data, 0, 1), "0 / (e^0 + 0) = 0");
  assert.equal(core.mixText(data, 1, 0), "<b> receives 0.41·1 + 0.59·3 = 2.17");
});

test("without a mask there are four steps, and the softmax takes the scaled scores", () => {
  const plain = { ...data, masked: null };
  assert.deepEqual(core.stepsOf(plain), ["score", "scale", "normalise", "mix"]);
  assert.equal(core.stepsOf(data).length, 5);
  assert.equal(core.normaliseText(plain, 0, 1), "e^5.66 / (e^0 + e^5.66) = 0");
});

test("a row that may read nothing says so", () => {
  const blind = { ...data, masked: [[null, null], data.masked[1]] };
  assert.equal(core.normaliseText(blind, 0, 0), "it may read nothing: all weights are 0");
});

test("a step has its matrix, and the columns are tokens or numbers", () => {
  assert.equal(core.stepOf(data, "score").matrix, data.score);
  assert.deepEqual(core.stepOf(data, "mix").columns, ["column 0"]);
  assert.deepEqual(core.stepOf(data, "mask").columns, data.labels);
});

test("an entry is made of two rows of numbers, and the column that counts is named", () => {
  const of = (name, i, j) => core.ingredients(data, name, i, j);
  assert.deepEqual(of("score", 1, 0), {
    counts: -1,
    columns: ["column 0", "column 1"],
    rows: [["query of <b>", [0, -1]], ["key of it", [0, 1]]],
  });
  assert.deepEqual(of("normalise", 0, 1).rows, [["scaled scores of it", [0, null]], ["weights", [1, 0]]]);
  assert.equal(of("scale", 0, 1).counts, 1);
  assert.deepEqual(of("mix", 1, 0).rows, [["weights of <b>", [0.4125, 0.5875]], ["column 0 in value", [1, 3]]]);
});

test("columns have the names of features where these are given", () => {
  const named = { ...data, features: ["living"] };
  assert.deepEqual(core.stepOf(named, "mix").columns, ["living"]);
  assert.equal(core.ingredients(named, "mix", 0, 0).rows[1][0], "living in value");
});
