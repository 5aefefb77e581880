// Run by Node: node --test tests/explorers/web
import assert from "node:assert/strict";
import { test } from "node:test";

import * as common from "../../../course_lib/explorers/web/common.mjs";

test("backgrounds are told dark from light, whatever way they are written", () => {
  assert.deepEqual(common.parseColour("rgb(17, 18, 19)"), [17, 18, 19]);
  assert.deepEqual(common.parseColour("rgba(17 18 19 / 0.5)"), [17, 18, 19]);
  assert.equal(common.parseColour("transparent"), null);
  assert.ok(common.isDark([17, 17, 17]) && !common.isDark([250, 250, 250]));
});

test("arrow keys move in a grid and stop at its edges; other keys do not move", () => {
  assert.deepEqual(common.moved("ArrowDown", 0, 1, 2, 3), [1, 1]);
  assert.deepEqual(common.moved("ArrowRight", 0, 2, 2, 3), [0, 2]);
  assert.equal(common.moved("Enter", 0, 0, 2, 3), null);
});

test("a character without a glyph is written as its code point, and said", () => {
  const lacking = new Set(["床", "😀"]);
  assert.equal(common.spelled("床前😀", lacking), "U+5E8A前U+1F600");
  assert.equal(common.spelled("abc", lacking), "abc");
  assert.equal(common.fontNote(new Set()), "");
  assert.match(common.fontNote(lacking), /U\+5E8A.*U\+1F600.*Noto Sans CJK/);
});

test("what has no form, or turns a text around, is spelled; a line feed and letters are not", () => {
  assert.deepEqual(["\u202e", "\u0000", "\t", "\n", " ", "<", "床", "é"].map(common.legible),
    ["U+202E", "U+0000", "U+0009", "\n", " ", "<", "床", "é"]);
});
