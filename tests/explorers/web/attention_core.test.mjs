// Run by Node: node --test tests/explorers/web
import assert from "node:assert/strict";
import { test } from "node:test";

import * as core from "../../../course_lib/explorers/web/attention_core.mjs";
import { palette } from "../../../course_lib/explorers/web/common.mjs";

/** Bytes as they come from the kernel: a view that begins anywhere in a buffer. */
function bytes(numbers, offset = 0) {
  const buffer = new ArrayBuffer(offset + 2 * numbers.length);
  const view = new DataView(buffer, offset);
  numbers.forEach((number, i) => view.setUint16(2 * i, number, true));
  return view;
}

test("weights are read by layer and head, from an odd place too", () => {
  const numbers = Array.from({ length: 2 * 3 * 4 }, (_, i) => i * 1000);
  const weights = new core.Weights(bytes(numbers, 3), { layers: 2, heads: 3, tokens: 2 });
  const map = weights.map(1, 2);
  assert.equal(map.length, 4);
  map.forEach((value, i) => assert.ok(Math.abs(value - ((20 + i) * 1000) / 65535) < 1e-6));
});

test("head -1 is the mean of the layer's heads", () => {
  const weights = new core.Weights(bytes([65535, 0, 0, 0, 0, 65535, 0, 0]), { layers: 1, heads: 2, tokens: 2 });
  assert.deepEqual([...weights.map(0, -1)], [0.5, 0.5, 0, 0]);
});

test("bytes of another size are refused", () => {
  assert.throws(() => new core.Weights(bytes([1, 2, 3]), { layers: 1, heads: 1, tokens: 2 }), /6 bytes for 4 weights/);
});

test("the strongest keys of a row come first, ties by their place, weak ones not at all", () => {
  const map = Float32Array.from([1, 0, 0, 0, 0.25, 0.5, 0.25, 0.001, 0]);
  assert.deepEqual(core.strongest(map, 3, 1, 9), [[1, 0.25], [2, 0.5]].reverse());
  assert.deepEqual(core.strongest(Float32Array.from([0.25, 0.25, 0.5]), 3, 0, 2), [[2, 0.5], [0, 0.25]]);
});

test("a difference keeps its sign, and the largest size comes first", () => {
  const map = core.difference(Float32Array.from([0.75, 0.25]), Float32Array.from([0.25, 1]));
  assert.deepEqual(core.strongest(map, 2, 0, 2), [[1, -0.75], [0, 0.5]]);
  assert.equal(
    core.describe(["a", "b"], 0, core.strongest(map, 2, 0, 2), { isDifference: true }),
    "“a” at 0 reads differently “b” at 1: -0.75, “a” at 0: +0.50",
  );
});

test("a sentence says what is read, or that nothing is", () => {
  assert.equal(core.describe(["a", "<b>"], 1, [[0, 1]]), "“<b>” at 1 reads “a” at 0: 1.00");
  assert.equal(core.describe(["a"], 0, []), "“a” at 0 reads nothing");
  assert.equal(core.describe(["a"], 0, [], { isDifference: true }), "“a” at 0: both read alike");
});

test("text flows into lines, and a line break ends one", () => {
  const places = core.flow([10, 10, 10, 10, 10], [false, false, false, true, false], 25, 20);
  assert.deepEqual(places.map((p) => [p.x, p.y]), [[0, 0], [10, 0], [0, 20], [10, 20], [0, 40]]);
  assert.equal(core.flow([90], [false], 25, 20)[0].x, 0); // wider than the room: a line of its own
});

test("a point finds its token, and beside the text there is none", () => {
  const places = core.flow([10, 10, 10], [false, true, false], 100, 20);
  assert.equal(core.tokenAt(places, 12, 5, 20), 1);
  assert.equal(core.tokenAt(places, 5, 25, 20), 2);
  assert.equal(core.tokenAt(places, 50, 5, 20), -1);
});

test("arrow keys go to the nearest token of the next line, and stay at the ends", () => {
  const places = core.flow([10, 10, 10, 30], [false, false, true, false], 100, 20);
  assert.equal(core.neighbour(places, 2, 1), 3);
  assert.equal(core.neighbour(places, 3, -1), 1);
  assert.equal(core.neighbour(places, 0, -1), 0);
  assert.equal(core.neighbour(places, 3, 1), 3);
});

test("pixels go from paper to ink, to the other ink below 0, and are never clear", () => {
  const colours = { ink: palette([255, 255, 255], [0, 0, 100]), other: palette([255, 255, 255], [100, 0, 0]) };
  const pixels = core.paint(Float32Array.from([0, 1, -1, 0.25]), colours);
  assert.deepEqual([...pixels.slice(0, 4)], [255, 255, 255, 255]);
  assert.deepEqual([...pixels.slice(4, 8)], [0, 0, 100, 255]);
  assert.deepEqual([...pixels.slice(8, 12)], [100, 0, 0, 255]);
  assert.ok(Math.abs(pixels[12] - 127) <= 1); // the square root of 0.25 is half of the way
});
