// Run by Node: node --test tests/explorers/web
import assert from "node:assert/strict";
import { test } from "node:test";

import * as core from "../../../course_lib/explorers/web/cache_core.mjs";

const base = { window: null, d_latent: null, d_rotary: null, context_length: 4096, source: "a paper", d_head: 128 };
const llama = { ...base, name: "Llama-2-70B", kind: "GQA", n_layers: 80, n_heads: 64, n_kv_heads: 8 };
const deepseek = { ...base, name: "V3", kind: "MLA", n_layers: 61, n_heads: 128, n_kv_heads: null, d_latent: 512, d_rotary: 64 };
const mistral = { ...base, name: "Mistral", kind: "GQA", n_layers: 32, n_heads: 32, n_kv_heads: 8, window: 4096 };

test("bytes are those that were published", () => {
  assert.equal(core.cacheBytes(llama, 4096, 1, 2), 1342177280);
  assert.equal(core.cacheBytes({ ...llama, n_kv_heads: 64 }, 4096, 1, 2), 10737418240);
  assert.equal(core.cacheBytes(deepseek, 1, 1, 2), 70272);
  assert.equal(core.cacheBytes(deepseek, 7, 3, 4), 61 * 576 * 7 * 3 * 4);
});

test("a window is all that is kept", () => {
  assert.equal(core.cacheBytes(mistral, 100000, 1, 2), core.cacheBytes(mistral, 4096, 1, 2));
  assert.equal(core.cacheBytes(mistral, 100, 1, 2), 131072 * 100);
});

test("what is typed is a whole number within the limits, or nothing", () => {
  assert.deepEqual(["8,192", " 7 ", "1 000", "1"].map((text) => core.whole(text, 10000)), [8192, 7, 1000, 1]);
  for (const wrong of ["", "0", "-1", "1.5", "1e3", "<b>", "10001", "٣"]) assert.equal(core.whole(wrong, 10000), null);
});

test("sizes have three digits and a unit", () => {
  assert.deepEqual([1, 999, 1000, 1342177280, 75497472, 4.2e15].map(core.size),
    ["1 bytes", "999 bytes", "1.00 kB", "1.34 GB", "75.5 MB", "4.20 PB"]);
});

test("bars are linear, or a fifth shorter for a tenth of the bytes", () => {
  assert.equal(core.share(25, 100, false), 0.25);
  assert.equal(core.share(10, 100, true), 0.8);
  assert.equal(core.share(100, 100, true), 1);
  assert.equal(core.share(1, 1e9, true), 0);
});

test("the sentence shows the sum, what sharing saves, and what does not fit", () => {
  assert.equal(core.sentence(llama, 8192, 1, 2),
    "Llama-2-70B, GQA: 80 layers · 2 · 8 · 128 numbers · 8,192 tokens · 1 text · 2 bytes = 2,684,354,560 bytes. " +
    "With a key head for each of its 64 heads: 8 times as much. It was made for 4,096 tokens. Numbers: a paper.");
  assert.match(core.sentence(deepseek, 10, 2, 1), /61 layers · \(512 \+ 64\) numbers · 10 tokens · 2 texts · 1 byte = 702,720 bytes\. .*56\.9 times/);
  assert.match(core.sentence(mistral, 5000, 1, 2), /4,096 tokens · 1 text.*look back 4,096 tokens, and keep no more/);
  assert.doesNotMatch(core.sentence({ ...llama, n_kv_heads: 64 }, 1, 1, 2), /as much/);
});
