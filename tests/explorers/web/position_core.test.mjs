// Run by Node: node --test tests/explorers/web
import assert from "node:assert/strict";
import { test } from "node:test";

import * as core from "../../../course_lib/explorers/web/position_core.mjs";

const data = {
  length: 3,
  sinusoidal: {
    vectors: [[0, 1], [0.84, 0.54], [0.91, -0.42]],
    wavelengths: [6.2832],
    products: [[1, 0.54, -0.42], [0.54, 1, 0.54], [-0.42, 0.54, 1]],
  },
  rotary: {
    frequencies: [1, 0.01],
    angles: [[0, 1, 2], [0, 0.01, 0.02]],
    words: [{
      name: "it",
      queries: [[[1, 0], [0.54, 0.84], [-0.42, 0.91]], [[1, 0], [1, 0.01], [1, 0.02]]],
      keys: [[[2, 0], [1.08, 1.68], [-0.84, 1.82]], [[1, 0], [1, 0.01], [1, 0.02]]],
      scores: [[3, 2.08, 0.17], [2.08, 3, 2.08], [0.16, 2.08, 3]],
      parts: [[-0.83, 1.08, 2, 1.08, -0.83], [1, 1, 1, 1, 1]],
      sums: [0.17, 2.08, 3, 2.08, 0.17],
    }],
  },
  alibi: [
    { n_heads: 1, slopes: [1 / 256], from_double: 0, halves: [177.4], reach: [3], weights: [[0.3346, 0.3333, 0.332]] },
    { n_heads: 3, slopes: [1 / 16, 1 / 256, 1 / 4], from_double: 1, halves: [11.1, 177.4, 2.8], reach: [3, 3, 1],
      weights: [[0.35, 0.33, 0.31], [0.33, 0.33, 0.33], [0.92, 0.05, 0.03]] },
  ],
};
const start = { view: "rotary", pair: 1, position: 1, m: 2, n: 1, words: 0, heads: 1, head: 2 };

test("what is chosen stays within the data, whatever is asked for", () => {
  assert.deepEqual(core.within(data, start), start);
  const wild = { view: "<b>", pair: 9, position: -4, m: 99, n: 1.4, words: NaN, heads: 0, head: 2 };
  assert.deepEqual(core.within(data, wild),
    { view: "sinusoidal", pair: 0, position: 0, m: 2, n: 1, words: 0, heads: 0, head: 0 });
  assert.equal(core.within(data, { ...start, view: "sinusoidal" }).pair, 0);
});

test("query and key move together, and both stay in the text", () => {
  assert.deepEqual(core.together({ m: 5, n: 2 }, 1, 8), { m: 6, n: 3 });
  assert.deepEqual(core.together({ m: 5, n: 2 }, 9, 8), { m: 7, n: 4 });
  assert.deepEqual(core.together({ m: 5, n: 2 }, -9, 8), { m: 3, n: 0 });
});

test("a distance has its places: the query moves only if the key has none", () => {
  assert.deepEqual(core.atDistance({ m: 5 }, 3, 8), { m: 5, n: 2 });
  assert.deepEqual(core.atDistance({ m: 1 }, 3, 8), { m: 3, n: 0 });
  assert.deepEqual(core.atDistance({ m: 6 }, -4, 8), { m: 3, n: 7 });
});

test("the score at all places of a distance is counted on its diagonal", () => {
  const { scores } = data.rotary.words[0];
  assert.deepEqual(core.placesAt(scores, 1), { count: 2, least: 2.08, largest: 2.08 });
  assert.deepEqual(core.placesAt(scores, -2), { count: 1, least: 0.17, largest: 0.17 });
  assert.deepEqual(core.scoreLines(data, start),
    ["⟨f(q, 2), f(k, 1)⟩ = 2.08", "at all 2 places with distance m − n = 1: 2.08"]);
  assert.equal(core.scoreLines(data, { ...start, m: 0, n: 2 })[1], "only here is the distance −2");
  const uneven = structuredClone(data);
  uneven.rotary.words[0].scores[1][0] = -1;
  assert.match(core.scoreLines(uneven, start)[1], /: −1\.00 to 2\.08$/);
});

test("axes have round numbers, and zero has no sign", () => {
  assert.deepEqual(core.ticks(-31, 32, 6), [-20, 0, 20]);
  assert.ok(core.ticks(-31, 32).every((at) => !Object.is(at, -0)));
  assert.deepEqual(core.ticks(0, 0.25, 4), [0, 0.1, 0.2]);
  assert.deepEqual(core.ticks(0, 63, 7), [0, 10, 20, 30, 40, 50, 60]);
  const [low, high] = core.spread([2, 2]);
  assert.ok(low < 2 && high > 2);
});

test("numbers as people read them", () => {
  assert.deepEqual([-0.001, -1.5, 2].map((x) => core.decimal(x)), ["0.00", "−1.50", "2.00"]);
  assert.deepEqual([6.2832, 35.4, 48300.2].map(core.amount), ["6.3", "35", "48,300"]);
  assert.deepEqual([0.5, 1 / 256, 2 ** -0.5].map(core.slopeName), ["1/2", "1/256", "0.707"]);
  assert.equal(core.angleText(1), "1.00 rad, 57°");
  assert.equal(core.angleText(2 * Math.PI * 3 + 1), "19.85 rad, 3 turns and 57°");
});

test("each view says what is chosen", () => {
  assert.deepEqual(core.sinusoidalText(data, { pair: 0, position: 1 }), [
    "Pair 0 (dimensions 0 and 1) goes round once in 6.3 tokens; at position 1 its sine is 0.84, its cosine 0.54.",
    "The vector of position 1, times itself: 1.0; times either neighbour: 0.5 and 0.5.",
  ]);
  assert.match(core.sinusoidalText(data, { pair: 0, position: 2 })[1], /times its neighbour: 0\.5\.$/);
  assert.deepEqual(core.rotaryText(data, { ...start, pair: 0 }), [
    "Pair 0 turns 1 radians with each position. The query at 2 is turned by 2.00 rad, 115°; the key at 1 by 1.00 rad, 57°.",
    "This pair: (−0.42)·1.08 + 0.91·1.68 = 1.08",
  ]);
  assert.equal(core.alibiText(data, start)[0], "Head 2 of 3 has the slope 1/4: every 2.8 tokens the weight is halved.");
  assert.match(core.alibiText(data, start)[1], /reads itself with 0\.92, and itself alone with nine tenths/);
  assert.match(core.alibiText(data, { heads: 1, head: 0 })[1], /and the last 3 with nine tenths/);
});

test("the rule of the slopes, for a power of two and for others", () => {
  assert.match(core.slopesRule({ n_heads: 8, from_double: 0 }), /^8 is a power of two: .* 2\^\(−8\/8\)/);
  assert.match(core.slopesRule({ n_heads: 12, from_double: 4 }), /slopes of 8 heads, then every second one of 16/);
});
