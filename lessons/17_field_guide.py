# %% [markdown] name="title"
# # Find your way: what is where, and how to read on
#
# Lesson 17 · [00 Start here](00_start_here.ipynb) · before: [16 Mixture of experts](16_mixture_of_experts.ipynb)
#
# No lesson, and no clock: a field guide, to look things up in.
#
# - You have forgotten a **word**, or want it in Chinese: [Glossary](#cell-id=glossary).
# - You want the **cell** that builds, measures or cites something: [Index](#cell-id=index), lesson by lesson.
# - You want to **go on**: [six cards](#cell-id=idea-cards), [required reading](#cell-id=reading),
#   [reading a model card](#cell-id=model-card-text), [a model on your laptop](#cell-id=laptop-text),
#   [frequent questions](#cell-id=questions), [where to go on](#cell-id=where-next).

# %% name="setup"
import torch

from course_lib.runtime import begin_lesson

begin_lesson("17")

# %% [markdown] name="idea-cards"
# ## Six cards
#
# | idea | in one sentence | paper | lesson |
# |---|---|---|---|
# | **Transformer** | Layers of attention, which moves information between tokens, and feed-forward, which works on each one alone, around a residual stream; all tokens of a text at once. | Vaswani et al. 2017, *Attention Is All You Need*, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762) | [02](02_self_attention.ipynb)–[09](09_a_gpt_from_its_parts.ipynb) |
# | **BERT** | An encoder that reads in both directions and is trained to fill blanks: good for judging a text, not for writing one. | Devlin et al. 2018, [arXiv 1810.04805](https://arxiv.org/abs/1810.04805) | [09](09_a_gpt_from_its_parts.ipynb) |
# | **T5** | Encoder and decoder, joined by cross-attention; every task is text in, text out. | Raffel et al. 2019, [arXiv 1910.10683](https://arxiv.org/abs/1910.10683) | [09](09_a_gpt_from_its_parts.ipynb) |
# | **GPT-3** | A decoder alone, 175 billion parameters; given a few examples in its prompt, it does many a task with no further training. | Brown et al. 2020, [arXiv 2005.14165](https://arxiv.org/abs/2005.14165) | [09](09_a_gpt_from_its_parts.ipynb), [16](16_mixture_of_experts.ipynb) |
# | **RoPE** | Turns queries and keys by angles that grow with the position, so that in their product positions count by their distance alone. | Su et al. 2021, [arXiv 2104.09864](https://arxiv.org/abs/2104.09864) | [07](07_rotary_positions.ipynb) |
# | **LayerNorm** | Each token's vector loses its mean and is divided by its standard deviation; then each entry is multiplied by a learned gain and moved by a learned shift. | Ba et al. 2016, [arXiv 1607.06450](https://arxiv.org/abs/1607.06450) | [08](08_the_block.ipynb) |

# %% [markdown] name="reading"
# ## Required reading
#
# In the order of the course. If you read three, read Vaswani et al., Radford et al. and Dao et al.
#
# 1. Bahdanau et al. 2014, [arXiv 1409.0473](https://arxiv.org/abs/1409.0473): attention before the Transformer, as a
#    help for an RNN.
# 2. Vaswani et al. 2017, *Attention Is All You Need*, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762). After
#    lesson 09 you have built its model; not its pieces of words, its label smoothing and its beam search.
# 3. Su et al. 2021, [arXiv 2104.09864](https://arxiv.org/abs/2104.09864), and Press et al. 2022,
#    [arXiv 2108.12409](https://arxiv.org/abs/2108.12409): RoPE and ALiBi.
# 4. Ba et al. 2016, [arXiv 1607.06450](https://arxiv.org/abs/1607.06450): LayerNorm; and Xiong et al. 2020,
#    [arXiv 2002.04745](https://arxiv.org/abs/2002.04745): why it went inside the residual branch.
# 5. Radford et al. 2019, [*Language Models are Unsupervised Multitask
#    Learners*](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf):
#    GPT-2.
# 6. Brown et al. 2020, [arXiv 2005.14165](https://arxiv.org/abs/2005.14165): GPT-3, nearly the same recipe, over a
#    hundred times as large.
# 7. Devlin et al. 2018, [arXiv 1810.04805](https://arxiv.org/abs/1810.04805), and Raffel et al. 2019,
#    [arXiv 1910.10683](https://arxiv.org/abs/1910.10683): BERT and T5, the cousins.
# 8. Kaplan et al. 2020, [arXiv 2001.08361](https://arxiv.org/abs/2001.08361), and Hoffmann et al. 2022,
#    [arXiv 2203.15556](https://arxiv.org/abs/2203.15556): how loss, size and data go together.
# 9. Holtzman et al. 2020, [arXiv 1904.09751](https://arxiv.org/abs/1904.09751): how to choose the next token.
# 10. Olsson et al. 2022, [arXiv 2209.11895](https://arxiv.org/abs/2209.11895): induction heads; and Jain & Wallace 2019,
#     [arXiv 1902.10186](https://arxiv.org/abs/1902.10186): what attention weights do not explain.
# 11. Dao et al. 2022, [arXiv 2205.14135](https://arxiv.org/abs/2205.14135): FlashAttention. An algorithm changed by
#     looking at where its bytes go.
# 12. Ainslie et al. 2023, [arXiv 2305.13245](https://arxiv.org/abs/2305.13245), and DeepSeek-AI 2024,
#     [arXiv 2405.04434](https://arxiv.org/abs/2405.04434): GQA and MLA.
# 13. Fedus et al. 2021, [arXiv 2101.03961](https://arxiv.org/abs/2101.03961): one expert a token, and how to keep all
#     of them at work.

# %% [markdown] name="model-card-text"
# ## Reading a model card
#
# A model's page, or its `config.json`, gives a dozen numbers. Seven of them say nearly everything about its size: the
# **vocabulary** V, the **hidden size** d (our `d_model`), the number of **layers** L, of **heads** h and of **KV heads**
# $h_\text{kv}$ (heads of keys and values, which several heads may share), the width of a head, $d_\text{head}$, which need
# not be d/h, and that of the feed-forward layer, $d_\text{ff}$ ("intermediate size"). For a model of the Llama kind
# (RMSNorm, RoPE, SwiGLU, no biases, an output matrix that is not tied to the embedding):
#
# $$N = \underbrace{2\,V d}_{\text{embedding, output}} + L\,\Big(\underbrace{2\, d\, h\, d_\text{head}}_{W_Q, W_O} +
# \underbrace{2\, d\, h_\text{kv}\, d_\text{head}}_{W_K, W_V} + \underbrace{3\, d\, d_\text{ff}}_{\text{SwiGLU}} +
# \underbrace{2 d}_{\text{norms}}\Big) + \underbrace{d}_{\text{last norm}}$$
#
# and for each token a cache keeps $2\, L\, h_\text{kv}\, d_\text{head}$ numbers ([lesson 15](15_smaller_caches.ipynb)).
#
# Do these numbers say what the makers say? We do not only put them into the formula: the course's own GPT is built in
# each of these shapes, on PyTorch's `meta` device, which has shapes and no memory, and we count what it has. The
# shapes, the number of parameters in the weights that were released, and what the makers say of it come from papers,
# released configurations and weight files; the cell after the next prints which papers.

# %% name="model-cards"
from course_lib.model.gpt import GPT, count_parameters
from course_lib.model.model_cards import cache_bytes, card_of, config_of

names = ["GPT-2 small", "GPT-3 175B", "Llama-2-7B", "Llama-2-70B", "Mistral-7B", "Mixtral-8x7B"]
names += ["Llama-3-8B", "Qwen3-8B"]
cards, counted = [card_of(name) for name in names], {}

titles = f"{'L':>16}{'d':>8}{'h/KV × d_head':>15}{'d_ff':>8}{'V':>9}{'parameters':>17}"
print(f"{titles}  released   makers say{'cache, bytes a token':>22}")
for card in cards:
    with torch.device("meta"):
        counted[card.name] = count = count_parameters(GPT(config_of(card)))
    heads = f"{card.n_heads}/{card.n_kv_heads} × {card.d_head}"
    released = "never" if card.parameters is None else "the same" if card.parameters == count else "another"
    print(
        f"{card.name:13}{card.n_layers:3}{card.d_model:8,}{heads:>15}{card.d_ff:8,}{card.vocab_size:9,}{count:17,}"
        f"  {released:9}{card.claimed:>12}{cache_bytes(card, 1):22,}"
    )
    assert released == ("never" if card.name == "GPT-3 175B" else "the same")

# %% name="card-sources"
for card in [*cards, *(card_of(name) for name in ("Llama-3-70B", "Qwen2.5-7B", "DeepSeek-V2", "DeepSeek-V3"))]:
    print(f"{card.name:13} {card.source}")

# %% [markdown] name="formula-text"
# GPT-3's weights were never released, so its 174,604,259,328 is our own count, with GPT-2's vocabulary; the paper prints
# 175.0B. All others agree to the last parameter. Llama 2 is Touvron et al. 2023, [arXiv 2307.09288](https://arxiv.org/abs/2307.09288);
# Llama 3 Grattafiori et al. 2024, [arXiv 2407.21783](https://arxiv.org/abs/2407.21783); Mistral Jiang et al. 2023,
# [arXiv 2310.06825](https://arxiv.org/abs/2310.06825); Mixtral Jiang et al. 2024, [arXiv 2401.04088](https://arxiv.org/abs/2401.04088);
# Qwen2.5 Qwen Team 2024, [arXiv 2412.15115](https://arxiv.org/abs/2412.15115); Qwen3 Qwen Team 2025,
# [arXiv 2505.09388](https://arxiv.org/abs/2505.09388).
#
# Now by the formula. Four things make it longer. Qwen2.5 adds a bias to queries, keys and values, and Qwen3 a norm to the
# queries and keys of each head. With experts ([lesson 16](16_mixture_of_experts.ipynb)) $3\,d\,d_\text{ff}$ counts once for
# each, and a router of d numbers for each is added; DeepSeek has some that all tokens pass through, and first layers
# without any. And DeepSeek's attention is MLA ([lesson 15](15_smaller_caches.ipynb)), with a latent for the queries as
# well: DeepSeek-AI 2024, [arXiv 2405.04434](https://arxiv.org/abs/2405.04434) and [arXiv 2412.19437](https://arxiv.org/abs/2412.19437).
# Which of the parameters does *one token* use? Of the experts those that are chosen, and of the embedding one row, which
# we leave out.

# %% name="by-formula"
def attention_parameters(card):
    """Of one layer, with grouped heads, or with latents (each has a norm) for queries and for keys and values."""
    d, width, kv_width = card.d_model, card.n_heads * card.d_head, (card.n_kv_heads or 0) * card.d_head
    if card.kind == "MLA":
        query = d * card.d_query + card.d_query + card.d_query * (width + card.n_heads * card.d_rotary)
        down = d * (card.d_latent + card.d_rotary) + card.d_latent
        return query + down + 2 * card.d_latent * width + width * d
    extra = card.qkv_bias * (width + 2 * kv_width) + card.qk_norm * 2 * card.d_head
    return 2 * d * width + 2 * d * kv_width + extra


def llama_parameters(card, one_token=False):
    """Parameters of a model of the Llama kind: all of them, or those that one token uses."""
    d, experts = card.d_model, card.n_experts or 0
    sparse_layers = card.n_layers - card.dense_layers if experts else 0
    at_work = (card.experts_per_token if one_token else experts) if experts else 0
    sparse = (at_work + card.shared_experts) * 3 * d * (card.d_expert or card.d_ff) + experts * d
    feed_forward = sparse_layers * sparse + (card.n_layers - sparse_layers) * 3 * d * card.d_ff
    embeddings = card.vocab_size * d * (1 if one_token else 2)
    return embeddings + card.n_layers * (attention_parameters(card) + 2 * d) + feed_forward + d


assert all(llama_parameters(card) == counted[card.name] for card in cards if card.recipe == "llama")
columns = ("parameters", 17), ("makers say", 12), ("one token uses", 17), ("makers say", 12), ("cache, bytes/token", 22)
print(" " * 13 + "".join(head.rjust(width) for head, width in columns))
for name in ("Llama-3-70B", "Mixtral-8x7B", "Qwen2.5-7B", "DeepSeek-V2", "DeepSeek-V3"):
    card = card_of(name)
    total, used = llama_parameters(card), llama_parameters(card, one_token=True)
    print(f"{name:13}{total:17,}{card.claimed:>12}{used:17,}{card.claimed_active or '':>12}{cache_bytes(card, 1):22,}")
    assert card.parameters in (None, total)

# %% [markdown] name="formula-answer"
# Both of DeepSeek's counts round to what the reports say, 236 and 671 billion, of which 21 and 37 are used. "7B" for
# Qwen2.5 is a name: it has 7.6 billion. And see the last column: DeepSeek-V3 has 84 times the parameters of Llama-3-8B and
# leaves about half the bytes for each token; GPT-3 leaves 36 times as many as Llama-3-8B.

# %% name="formula-holds"
v3, llama, gpt3 = card_of("DeepSeek-V3"), card_of("Llama-3-8B"), card_of("GPT-3 175B")
assert round(llama_parameters(v3) / llama_parameters(llama)) == 84
assert 0.5 < cache_bytes(v3, 1) / cache_bytes(llama, 1) < 0.6 and cache_bytes(gpt3, 1) == 36 * cache_bytes(llama, 1)
for card in (card_of("DeepSeek-V2"), v3, card_of("Mixtral-8x7B")):
    assert f"{llama_parameters(card) / 1e9:.0f}B" == card.claimed
    assert f"{llama_parameters(card, one_token=True) / 1e9:.0f}B" == card.claimed_active

# %% [markdown] name="laptop-text"
# ## What fits into your laptop?
#
# Two things take memory: the weights, and the cache ([lesson 15](15_smaller_caches.ipynb) has a calculator for it). To make
# weights fit they are **quantised**: stored with fewer bits, and a scale for each few of them. `Q4_K_M`, a common choice, is
# 4 bits and some extra: 4.89 a weight for Llama 3.1 8B ([table of llama.cpp](https://github.com/ggml-org/llama.cpp/blob/master/tools/quantize/README.md)).
# To that comes the cache, here in 16 bits for 8,192 tokens, or for as many as the model was made for; Mistral keeps
# no more than its window of 4,096.
#
# Memory bounds the speed as well: for each token all matrices are read once (of the embedding one row), and the cache. A
# laptop with two channels of DDR4-3200, each 8 bytes wide, reads at most 51.2 GB a second; Apple's processors and newer
# memory read faster, and a GPU much faster. The last column is this bound, with the cache full: a program that writes one
# text, token by token, cannot be quicker on such a laptop.

# %% name="laptop"
memory = 2 * 8 * 3.2e9  # bytes a second: channels · bytes · transfers a second
quantised_bits = 4.89

titles = f"{'16 bits':>22}{'Q4_K_M':>9}{'tokens':>8}{'kept':>7}{'cache':>9}{'together':>10}"
print(f"{titles}{'tokens a second, at most':>26}")
for name in ("Llama-2-7B", "Mistral-7B", "Llama-3-8B", "Qwen3-8B", "Llama-3-70B"):
    card = card_of(name)
    tokens = min(8192, card.context_length)
    kept = min(tokens, card.window or tokens)
    weights, cache = card.parameters * quantised_bits / 8, cache_bytes(card, tokens)
    looked_up = card.vocab_size * card.d_model * quantised_bits / 8  # the embedding
    print(
        f"{name:13}{card.parameters * 2 / 1e9:6.1f} GB{weights / 1e9:6.1f} GB{tokens:8,}{kept:7,}{cache / 1e9:6.1f} GB"
        f"{(weights + cache) / 1e9:7.1f} GB{memory / (weights - looked_up + cache):26.1f}"
    )
    assert cache == 2 * card.n_layers * card.n_kv_heads * card.d_head * kept * 2

# %% [markdown] name="laptop-answer"
# A model of eight billion parameters takes 16 GB as it is; quantised and with its cache about 6, which many a laptop has,
# and then writes about nine tokens a second at most. One of seventy billion wants some 46 GB.
#
# Two programs, among others, run open models on a laptop. [llama.cpp](https://github.com/ggml-org/llama.cpp), in C++, for
# CPUs and most GPUs: its [releases](https://github.com/ggml-org/llama.cpp/releases) have it ready to run. It reads **GGUF**
# files, weights and configuration in one, and `-hf user/model` fetches one from the Hugging Face Hub.
# [MLX LM](https://github.com/ml-explore/mlx-lm), for Apple's processors: `pip install mlx-lm`. Both need the network once,
# for the weights. Some models ask you to accept a licence first (Llama, in the makers' own repositories); Qwen3 (Apache 2.0)
# does not:
#
# ```
# llama-completion -hf Qwen/Qwen3-8B-GGUF -no-cnv -n 40 -p "The animal did not cross the road because"
# mlx_lm.generate --model mlx-community/Qwen3-8B-4bit --ignore-chat-template -m 40 -p "The animal did not cross the road because"
# ```
#
# Both models were trained to chat. `-no-cnv` and `--ignore-chat-template` say that the text is to be continued as it
# stands; to talk to them, use `llama-cli` and `mlx_lm.chat`. Without a number of tokens (40) llama.cpp goes on without end.
# (So named in 2026; such programs change quickly: `--help` knows.)
#
# While it loads, llama.cpp prints numbers of this page: layers, heads, KV heads, and the size of the cache (`-v` if it is silent). MLX LM prints
# tokens a second and the most memory that it held. Compare both with the table.

# %% [markdown] name="questions"
# ## Frequently asked
#
# **Why "attention"?** Bahdanau and colleagues (2014, [arXiv 1409.0473](https://arxiv.org/abs/1409.0473), section 3.1) wanted
# a translator that looks back at the source sentence while it writes, each time at other words. A small *alignment model*
# gives the words weights, and what the writing network does by them they call a mechanism of attention: it decides to
# which parts of the sentence it attends. The name stuck, with a warning: a weight says where a head read, not why the
# model answered ([lesson 13](13_look_inside.ipynb)).
#
# **Why did it replace RNNs?** An RNN squeezes what it has read into one vector, and has to read one token after the other.
# Attention keeps every token within reach, however far ([lesson 01](01_characters_to_vectors.ipynb) measures both), and all
# positions of a text train at once ([lesson 04](04_causal_mask.ipynb)). RNNs did not vanish: a state of fixed size is cheap
# while one writes, and newer ones train without much waiting (Gu & Dao 2023, *Mamba*,
# [arXiv 2312.00752](https://arxiv.org/abs/2312.00752)).
#
# **Why do long contexts cost so much?** Every token is compared with every other: double the text, four times the scores
# ([lesson 14](14_the_bill.ipynb)). And while a model writes, keys and values of all that was read have to stay in memory, and
# are read for each new token ([lesson 12](12_generate.ipynb)).
#
# **Why √d_k?** A dot product of d_k independent terms spreads by √d_k; undone, softmax neither freezes nor blurs
# ([lesson 03](03_scale.ipynb)).
#
# **Does a Transformer understand?** The course cannot say. It can say what a head reads, what is lost without it, and what
# the loss is. Be wary of whoever answers with more certainty than measurements.
#
# **Words or characters?** This course uses characters, so that nothing is hidden. Most models of today use pieces of words (made by
# **byte-pair encoding**, which joins again and again the two neighbours that most often stand together: Sennrich et al. 2016,
# [arXiv 1508.07909](https://arxiv.org/abs/1508.07909)): shorter texts, larger vocabularies, the same model behind.
#
# **Why is my loss not yours?** Other processors and other numbers of threads add in another order. The last bits differ, and
# training makes such differences grow ([lesson 10](10_train_it.ipynb)). So the course asserts bounds, and no digits.

# %% [markdown] name="glossary"
# ## Glossary
#
# Each word stands in bold, and is explained, in the lesson on the right.

# %% [markdown] name="glossary-a-b"
# ### A, B
#
# | English | 中文 | means | lesson |
# |---|---|---|---|
# | ablation | 消融 | taking a part away to measure what is lost | [05](05_many_heads.ipynb) |
# | absorption | （权重）吸收 | a matrix of the key multiplied into the query, so that no key has to be made | [15](15_smaller_caches.ipynb) |
# | activation function | 激活函数 | the part of a layer that is not linear: ReLU, GELU, SiLU | [08](08_the_block.ipynb) |
# | active (parameters) | 激活参数 | those that one token meets in a mixture of experts | [16](16_mixture_of_experts.ipynb) |
# | AdamW | AdamW（解耦权重衰减的 Adam 优化器） | gradient descent with a step of its own for each parameter, and weight decay apart from it | [10](10_train_it.ipynb) |
# | ALiBi | ALiBi（线性偏置注意力） | a discount on scores that grows with distance | [06](06_word_order.ipynb) |
# | attention | 注意力 | a mean of values, weighted by how well keys fit a query | [02](02_self_attention.ipynb) |
# | attention sink | 注意力汇 | a token read by heads that have nothing to read | [13](13_look_inside.ipynb) |
# | attention weights | 注意力权重 | the shares that a token gives to those it reads: a row with the sum 1 | [00](00_start_here.ipynb) |
# | balancing loss | 负载均衡损失 | a loss that keeps all experts at work | [16](16_mixture_of_experts.ipynb) |
# | batch | 批 | texts that a model reads together in one step | [01](01_characters_to_vectors.ipynb) |
# | bfloat16, float16 | bfloat16、float16（半精度浮点数） | numbers of 16 bits: with the range of float32, or with more precision | [11](11_train_on_a_gpu.ipynb) |
# | bias | 偏置 | a learned constant that is added | [01](01_characters_to_vectors.ipynb) |
# | bidirectional | 双向 | reading what stands before and behind | [04](04_causal_mask.ipynb) |
# | bigram | 二元组 | two tokens next to each other; a model of them knows one token of context | [01](01_characters_to_vectors.ipynb) |
# | bits per character | 每字符比特数 | the loss in bits: what a perfect compressor would need | [01](01_characters_to_vectors.ipynb) |
# | block | 块 | attention and feed-forward layer, each with norm and residual connection | [08](08_the_block.ipynb) |
# | byte-pair encoding | 字节对编码（BPE） | pieces of words, made by joining frequent neighbours | [17](17_field_guide.ipynb) |

# %% [markdown] name="glossary-c-d"
# ### C, D
#
# | English | 中文 | means | lesson |
# |---|---|---|---|
# | capacity | 容量 | how many tokens an expert takes | [16](16_mixture_of_experts.ipynb) |
# | capacity factor | 容量因子 | by how much an expert's capacity exceeds its fair share | [16](16_mixture_of_experts.ipynb) |
# | causal mask | 因果掩码 | hides the future | [04](04_causal_mask.ipynb) |
# | chance | 随机基线 | what a head scores that reads evenly | [13](13_look_inside.ipynb) |
# | checkpoint | 检查点 | all that a run needs to go on | [10](10_train_it.ipynb) |
# | clipping | （梯度）裁剪 | shortens a gradient that is too long | [10](10_train_it.ipynb) |
# | cross-attention | 交叉注意力 | the query comes from one text, key and value from another | [09](09_a_gpt_from_its_parts.ipynb) |
# | cross-entropy | 交叉熵 | the mean surprise at what came | [10](10_train_it.ipynb) |
# | data parallelism | 数据并行 | each device computes a share of the batch | [11](11_train_on_a_gpu.ipynb) |
# | decoder | 解码器 | writes from left to right, and may read an encoder's text | [09](09_a_gpt_from_its_parts.ipynb) |
# | decoupled RoPE | 解耦 RoPE | a small shared key that is turned, beside the latent of MLA | [15](15_smaller_caches.ipynb) |
# | dot product | 点积 | entry times entry, added up; a score | [02](02_self_attention.ipynb) |
# | dropout | 随机失活（Dropout） | in training, a random part is set to 0 | [10](10_train_it.ipynb) |

# %% [markdown] name="glossary-e-g"
# ### E–G
#
# | English | 中文 | means | lesson |
# |---|---|---|---|
# | embedding | 嵌入 | the table of the tokens' vectors, and such a vector | [01](01_characters_to_vectors.ipynb) |
# | encoder | 编码器 | reads in both directions | [09](09_a_gpt_from_its_parts.ipynb) |
# | encoder–decoder | 编码器–解码器 | one part reads a text in both directions, another writes and reads it by cross-attention | [09](09_a_gpt_from_its_parts.ipynb) |
# | entropy | 熵 | how evenly weights are spread: the mean surprise of a draw | [03](03_scale.ipynb) |
# | equivariance | 等变性 | shuffle the input, and the outputs are shuffled along | [02](02_self_attention.ipynb) |
# | expert | 专家 | one of several feed-forward layers beside one another | [16](16_mixture_of_experts.ipynb) |
# | extrapolation | 外推 | use beyond what one was trained on, such as longer texts | [07](07_rotary_positions.ipynb) |
# | feed-forward layer | 前馈层 | two matrices and an activation function, for each token alone | [08](08_the_block.ipynb) |
# | fine-tuned | 微调 | trained further, on a task | [09](09_a_gpt_from_its_parts.ipynb) |
# | FlashAttention | FlashAttention（分块精确注意力） | exact attention, tile by tile, that never stores all scores | [14](14_the_bill.ipynb) |
# | FLOPs | 浮点运算次数 | multiplications and additions, counted | [05](05_many_heads.ipynb) |
# | gate | 门控（权重） | what an expert's output is multiplied by | [16](16_mixture_of_experts.ipynb) |
# | GGUF | GGUF（模型文件格式） | one file with a model's weights and configuration, for llama.cpp | [17](17_field_guide.ipynb) |
# | gradient | 梯度 | the slope of the loss in every parameter | [01](01_characters_to_vectors.ipynb) |
# | gradient descent | 梯度下降 | move each parameter a little against its gradient, again and again | [01](01_characters_to_vectors.ipynb) |
# | greedy | 贪心（解码） | the likeliest token, every time | [12](12_generate.ipynb) |
# | group | （查询头的）组 | query heads that share keys and values | [15](15_smaller_caches.ipynb) |
# | grouped-query attention (GQA) | 分组查询注意力 | some key heads, each shared by a group of query heads | [15](15_smaller_caches.ipynb) |

# %% [markdown] name="glossary-h-k"
# ### H–K
#
# | English | 中文 | means | lesson |
# |---|---|---|---|
# | HBM, SRAM | 高带宽内存、片上静态内存 | the large memory of a GPU, and the small fast one on the chip | [14](14_the_bill.ipynb) |
# | head | 注意力头 | one of several attentions side by side | [05](05_many_heads.ipynb) |
# | head score | （注意力）头得分 | how much of a head's attention goes where its type would | [13](13_look_inside.ipynb) |
# | heatmap | 热力图 | a matrix as a picture | [00](00_start_here.ipynb) |
# | hidden unit | 隐藏单元 | a weighted sum and an activation function; a feed-forward layer has many | [08](08_the_block.ipynb) |
# | hook | 钩子 | a function that a module calls when it runs | [13](13_look_inside.ipynb) |
# | in-context learning | 上下文学习 | learning from the prompt, without a training step | [16](16_mixture_of_experts.ipynb) |
# | induction head | 归纳头 | reads what stood after the former occurrence of the present token | [13](13_look_inside.ipynb) |
# | initialisation | 初始化 | which random numbers a model starts from | [09](09_a_gpt_from_its_parts.ipynb) |
# | interleaved, half-split layout | 交错布局、对半布局 | which entries RoPE turns as a pair: neighbours, or i and i + d_head/2 | [07](07_rotary_positions.ipynb) |
# | kernel | 核函数（GPU 程序） | a program on a GPU; a notebook's kernel is something else (00) | [14](14_the_bill.ipynb) |
# | key–value cache (KV cache) | 键值缓存 | the keys and values of the past, kept | [12](12_generate.ipynb) |
# | KV head | 键值头 | keys and values that one or several query heads read | [15](15_smaller_caches.ipynb) |

# %% [markdown] name="glossary-l"
# ### L
#
# | English | 中文 | means | lesson |
# |---|---|---|---|
# | language model | 语言模型 | guesses what comes next in a text | [00](00_start_here.ipynb) |
# | latent | 潜变量 | a short vector of which keys and values of all heads are made | [15](15_smaller_caches.ipynb) |
# | layer | 层 | a part through which all tokens go; a block, or a part of one | [00](00_start_here.ipynb) |
# | LayerNorm | 层归一化 | mean 0 and variance 1 for each token, then a learned gain and shift | [08](08_the_block.ipynb) |
# | leak | （信息）泄漏 | a way by which a model sees what it is to guess | [04](04_causal_mask.ipynb) |
# | learning rate | 学习率 | how far a step goes | [10](10_train_it.ipynb) |
# | load | （专家的）负载 | the share of the tokens that an expert gets | [16](16_mixture_of_experts.ipynb) |
# | logits | logits（未归一化得分） | the scores before the last softmax | [09](09_a_gpt_from_its_parts.ipynb) |
# | loss | 损失 | the mean surprise; what training makes small | [00](00_start_here.ipynb) |
# | loss scaling | 损失缩放 | a factor that keeps small gradients from vanishing in float16 | [11](11_train_on_a_gpu.ipynb) |
# | LSTM | 长短期记忆网络 | a recurrent network with gates over what it keeps | [01](01_characters_to_vectors.ipynb) |

# %% [markdown] name="glossary-m-o"
# ### M–O
#
# | English | 中文 | means | lesson |
# |---|---|---|---|
# | masked language modelling | 掩码语言建模 | fill in the blanks: BERT's training | [09](09_a_gpt_from_its_parts.ipynb) |
# | master weights | 主权重 | the copy in float32 that the optimiser changes | [11](11_train_on_a_gpu.ipynb) |
# | mixed precision | 混合精度 | products in 16 bits, weights and sums in 32 | [11](11_train_on_a_gpu.ipynb) |
# | mixture of experts (MoE) | 混合专家 | many feed-forward layers, few at work for each token | [16](16_mixture_of_experts.ipynb) |
# | model FLOPs utilisation (MFU) | 模型算力利用率 | the share of a device's peak that a training gets | [11](11_train_on_a_gpu.ipynb) |
# | multi-head attention (MHA) | 多头注意力 | heads side by side, joined by W_O | [05](05_many_heads.ipynb) |
# | multi-head latent attention (MLA) | 多头潜在注意力 | keys and values of all heads made of one short latent | [15](15_smaller_caches.ipynb) |
# | multi-query attention (MQA) | 多查询注意力 | one key head for all query heads | [15](15_smaller_caches.ipynb) |
# | Muon | Muon（矩阵正交化优化器） | an optimiser for matrices | [10](10_train_it.ipynb) |
# | nat | 奈特 | the unit of surprise with the natural logarithm | [00](00_start_here.ipynb) |
# | NTK-aware | NTK 感知（缩放） | a larger base slows the slow pairs of RoPE | [07](07_rotary_positions.ipynb) |
# | one-hot vector | 独热向量 | 1 at one place, 0 elsewhere | [01](01_characters_to_vectors.ipynb) |
# | online softmax | 在线 softmax | a softmax whose numbers come one by one | [14](14_the_bill.ipynb) |
# | optimiser | 优化器 | turns gradients into steps | [10](10_train_it.ipynb) |
# | overfitting | 过拟合 | learning by heart what does not carry over | [10](10_train_it.ipynb) |

# %% [markdown] name="glossary-p-q"
# ### P, Q
#
# | English | 中文 | means | lesson |
# |---|---|---|---|
# | padding | 填充 | tokens that stand for nothing, to make texts equally long | [04](04_causal_mask.ipynb) |
# | parameter | 参数 | a number that training changes | [00](00_start_here.ipynb) |
# | perplexity | 困惑度 | e to the cross-entropy: among how many tokens the model hesitates | [01](01_characters_to_vectors.ipynb) |
# | position embedding | 位置嵌入 | a learned vector for each place | [09](09_a_gpt_from_its_parts.ipynb) |
# | position encoding | 位置编码 | what tells attention where a token stands | [06](06_word_order.ipynb) |
# | position interpolation | 位置插值 | all pairs of RoPE slowed by one factor | [07](07_rotary_positions.ipynb) |
# | Post-LN, Pre-LN | 后置层归一化、前置层归一化 | the norm stands after the sum, or inside the branch | [08](08_the_block.ipynb) |
# | pre-training | 预训练 | training on plain text, before anything special | [09](09_a_gpt_from_its_parts.ipynb) |
# | prefill, decode | 预填充、解码（生成） | the prompt at once; then token by token | [12](12_generate.ipynb) |
# | prompt | 提示 | the text that a model continues | [00](00_start_here.ipynb) |
# | quantised | 量化 | stored with fewer bits, and a scale for each few numbers | [17](17_field_guide.ipynb) |
# | query, key, value | 查询、键、值 | what a token looks for, what it offers, what it passes on | [02](02_self_attention.ipynb) |

# %% [markdown] name="glossary-r"
# ### R
#
# | English | 中文 | means | lesson |
# |---|---|---|---|
# | recurrent network (RNN) | 循环神经网络 | reads one token after the other into a state | [01](01_characters_to_vectors.ipynb) |
# | ReLU, GELU, SiLU | 修正线性单元、高斯误差线性单元、SiLU | 0 below 0, x above; and two smooth kinds of it | [08](08_the_block.ipynb) |
# | residual connection | 残差连接 | x + f(x): what came in is added to what comes out | [08](08_the_block.ipynb) |
# | residual stream | 残差流 | the vector that every layer reads and adds to | [08](08_the_block.ipynb) |
# | ring attention | 环形注意力 | keys and values go round devices, and the parts are merged | [14](14_the_bill.ipynb) |
# | RMSNorm | 均方根归一化 | root mean square 1 for each token, then a learned gain | [08](08_the_block.ipynb) |
# | RoPE (rotary positions) | 旋转位置编码 | queries and keys turned by angles that grow with the position | [07](07_rotary_positions.ipynb) |
# | router | 路由器 | chooses the experts of a token | [16](16_mixture_of_experts.ipynb) |
# | routing collapse | 路由坍塌 | a few experts get all tokens | [16](16_mixture_of_experts.ipynb) |

# %% [markdown] name="glossary-s"
# ### S
#
# | English | 中文 | means | lesson |
# |---|---|---|---|
# | sampling | 采样 | drawing the next token by its probability | [12](12_generate.ipynb) |
# | saturation | 饱和 | one weight is nearly 1, and the gradient nearly 0 | [03](03_scale.ipynb) |
# | score | 得分 | query · key: how well they fit | [02](02_self_attention.ipynb) |
# | seed | 随机种子 | where random numbers begin | [00](00_start_here.ipynb) |
# | self-attention | 自注意力 | query, key and value come from the same text | [02](02_self_attention.ipynb) |
# | sinusoidal | 正弦（位置编码） | sines and cosines of the position, added | [06](06_word_order.ipynb) |
# | sliding window | 滑动窗口 | each token reads the last w only | [14](14_the_bill.ipynb) |
# | smoothing | 平滑 | a small number added to counts, so that none is 0 | [01](01_characters_to_vectors.ipynb) |
# | softmax | softmax（归一化指数函数） | makes scores positive and their sum 1 | [01](01_characters_to_vectors.ipynb) |
# | surprise | 惊奇度（自信息） | −ln of the probability of what came | [00](00_start_here.ipynb) |
# | SwiGLU | SwiGLU（门控前馈层） | a feed-forward layer whose hidden units are gated by a second matrix | [08](08_the_block.ipynb) |

# %% [markdown] name="glossary-t-z"
# ### T–Z
#
# | English | 中文 | means | lesson |
# |---|---|---|---|
# | target | 目标 | the token that is to be guessed | [04](04_causal_mask.ipynb) |
# | teacher forcing | 教师强制 | each prediction reads the true text before it, and not the model's own | [04](04_causal_mask.ipynb) |
# | temperature | 温度 | what scores are divided by before a softmax | [03](03_scale.ipynb) |
# | test split | 测试集 | text kept until the very end | [10](10_train_it.ipynb) |
# | tile | 分块 | a part of queries or keys, small enough for fast memory | [14](14_the_bill.ipynb) |
# | token | 词元 | what a model reads as one unit; here a character | [01](01_characters_to_vectors.ipynb) |
# | tokenizer | 分词器 | turns text into numbers and back | [01](01_characters_to_vectors.ipynb) |
# | top-k, top-p | top-k、top-p（核）采样 | draw among the likeliest only | [12](12_generate.ipynb) |
# | training split | 训练集 | the text that a model learns from | [10](10_train_it.ipynb) |
# | validation split | 验证集 | text kept from training, to compare by | [01](01_characters_to_vectors.ipynb) |
# | vanishing gradient | 梯度消失 | a gradient that shrinks on its way back | [01](01_characters_to_vectors.ipynb) |
# | variance | 方差 | the mean square of the distance from the mean | [03](03_scale.ipynb) |
# | vocabulary | 词表 | all tokens that a model knows | [00](00_start_here.ipynb) |
# | warm-up | 预热 | small steps at first | [08](08_the_block.ipynb) |
# | weight decay | 权重衰减 | shrinks what nothing pulls at | [10](10_train_it.ipynb) |
# | weight tying | 权重绑定（权重共享） | the output matrix is the embedding's own | [09](09_a_gpt_from_its_parts.ipynb) |
# | window | 窗口 | a piece of text as long as the context | [10](10_train_it.ipynb) |
# | Xavier | Xavier（初始化） | random matrices whose spread fits their width | [08](08_the_block.ipynb) |
# | YaRN | YaRN（RoPE 扩展方法） | slow pairs of RoPE slowed, fast ones left alone | [07](07_rotary_positions.ipynb) |

# %% [markdown] name="where-next"
# ## Where to go on
#
# - Jay Alammar, [*The Illustrated Transformer*](https://jalammar.github.io/illustrated-transformer/): the whole of it in
#   pictures.
# - [*The Annotated Transformer*](https://nlp.seas.harvard.edu/annotated-transformer/) (Harvard NLP): the paper, line by line,
#   with code.
# - Andrej Karpathy, [nanoGPT](https://github.com/karpathy/nanoGPT) and [*Let's reproduce GPT-2
#   (124M)*](https://www.youtube.com/watch?v=l8pRSuU81PU): [lesson 11](11_train_on_a_gpu.ipynb) at full size. Since November 2025 its README calls nanoGPT
#   old, and sends you to [nanochat](https://github.com/karpathy/nanochat), which goes on to a small chat model; as a page
#   of code to read, the old one is the shorter.
# - Stanford [CS224N](https://web.stanford.edu/class/cs224n/), natural language processing with deep learning: lectures and
#   notes; [CS336](https://cs336.stanford.edu/), language models from scratch: the assignments are hard and worth it.
# - Elhage et al. 2021, [*A Mathematical Framework for Transformer
#   Circuits*](https://transformer-circuits.pub/2021/framework/index.html): where [lesson 13](13_look_inside.ipynb) leads.
# - Your own project: the capstone of [lesson 16](16_mixture_of_experts.ipynb).

# %% [markdown] name="index"
# ## Index
#
# Everything that the course builds (an exercise, or a cell in front of you), measures, counts, estimates, proves or cites,
# lesson by lesson. The link opens the notebook; in JupyterLab, at that cell.

# %% [markdown] name="index-01"
# ### 01 From characters to vectors
#
# | what | where | how |
# |---|---|---|
# | a vocabulary from a text: each different character gets a number | [papaya](01_characters_to_vectors.ipynb#cell-id=papaya) | built |
# | tokenizer: encode and decode; characters outside the vocabulary | [ex-tokenizer](01_characters_to_vectors.ipynb#cell-id=ex-tokenizer) | built |
# | one-hot vectors | [ex-one-hot](01_characters_to_vectors.ipynb#cell-id=ex-one-hot) | built |
# | embedding: to look up a row is a one-hot product | [embedding](01_characters_to_vectors.ipynb#cell-id=embedding) | measured |
# | bigram model by counting, with smoothing | [ex-bigram](01_characters_to_vectors.ipynb#cell-id=ex-bigram) | built |
# | the loss of a text: mean surprise | [ex-loss](01_characters_to_vectors.ipynb#cell-id=ex-loss) | built |
# | L = −1/N Σ ln P; an even guess costs ln V | [formula](01_characters_to_vectors.ipynb#cell-id=formula) | formula |
# | bigram model by gradient descent reaches the same loss as by counting | [learn](01_characters_to_vectors.ipynb#cell-id=learn) | measured |
# | bits per character | [ex-bits](01_characters_to_vectors.ipynb#cell-id=ex-bits) | built |
# | even guess, frequencies, bigram and GPT: nats and bits | [ladder](01_characters_to_vectors.ipynb#cell-id=ladder) | measured |
# | no smoothing: a probability of 0, an infinite loss | [break-zero](01_characters_to_vectors.ipynb#cell-id=break-zero) | measured |
# | RNN: one memory (state), one token at a time | [rnn](01_characters_to_vectors.ipynb#cell-id=rnn) | built |
# | LSTM: a recurrent network with gates | [lstm](01_characters_to_vectors.ipynb#cell-id=lstm) | built |
# | recall as the distance grows: accuracy of an LSTM and of attention | [recall-run](01_characters_to_vectors.ipynb#cell-id=recall-run) | measured |
# | vanishing gradient: what of a far character arrives | [fade](01_characters_to_vectors.ipynb#cell-id=fade) | measured |
# | the recall task with several seeds, and with open gates | [seeds](01_characters_to_vectors.ipynb#cell-id=seeds) | measured |
# | how many steps wait for one another | [wait](01_characters_to_vectors.ipynb#cell-id=wait) | counted |
# | two capitals: attention does not know which came first | [break-order](01_characters_to_vectors.ipynb#cell-id=break-order) | measured |
# | attention helped a recurrent translator (Bahdanau et al. 2014); the Transformer (Vaswani et al. 2017) kept only attention | [break-order-answer](01_characters_to_vectors.ipynb#cell-id=break-order-answer) | cited |

# %% [markdown] name="index-02"
# ### 02 Self-attention
#
# | what | where | how |
# |---|---|---|
# | query, key and value from three matrices | [matrices](02_self_attention.ipynb#cell-id=matrices) | built |
# | score: query · key | [score](02_self_attention.ipynb#cell-id=score) | built |
# | scale and softmax by hand | [ex-by-hand](02_self_attention.ipynb#cell-id=ex-by-hand) | built |
# | mix the values by weights; rows sum to 1 | [loops](02_self_attention.ipynb#cell-id=loops) | built |
# | drawing of the data flow, from token vectors to new token vectors | [flow](02_self_attention.ipynb#cell-id=flow) | built |
# | explorer of the four steps, with their numbers | [steps](02_self_attention.ipynb#cell-id=steps) | built |
# | scaled scores of all queries and keys | [ex-scores](02_self_attention.ipynb#cell-id=ex-scores) | built |
# | softmax over the rows of scores | [ex-weights](02_self_attention.ipynb#cell-id=ex-weights) | built |
# | attention as three lines of matrices: softmax, then mix | [ex-attention](02_self_attention.ipynb#cell-id=ex-attention) | built |
# | Attention(Q, K, V) = softmax(QKᵀ/√d_k) V; symbol, variable, axis | [formula](02_self_attention.ipynb#cell-id=formula) | formula |
# | n × n weights, softmax(…): row i says how much token i reads each token | [formula](02_self_attention.ipynb#cell-id=formula) | formula |
# | scaled dot-product attention: loop, matrix, library equal | [same](02_self_attention.ipynb#cell-id=same) | measured |
# | two passes, set by hand: "it" reads tired or wide, then animal or road | [two-passes](02_self_attention.ipynb#cell-id=two-passes) | built |
# | why one pass cannot do it | [one-pass](02_self_attention.ipynb#cell-id=one-pass) | measured |
# | permutation-equivariant: shuffle the input, and outputs shuffle along | [order](02_self_attention.ipynb#cell-id=order) | measured |
# | without the softmax an output grows with the text | [break-softmax](02_self_attention.ipynb#cell-id=break-softmax) | measured |

# %% [markdown] name="index-03"
# ### 03 The scale
#
# | what | where | how |
# |---|---|---|
# | dot products of vectors of signs | [signs](03_scale.ipynb#cell-id=signs) | counted |
# | Var(q·k) = d_k, for independent components of mean 0 and variance 1 | [formula](03_scale.ipynb#cell-id=formula) | formula |
# | spread of scores, measured against theory: 8 at 64, 22.6 at 512 | [measure](03_scale.ipynb#cell-id=measure) | measured |
# | spread of a score with other variances | [ex-spread](03_scale.ipynb#cell-id=ex-spread) | built |
# | mean 1 breaks the derivation | [assumptions](03_scale.ipynb#cell-id=assumptions) | measured |
# | entropy of a row of weights | [ex-entropy](03_scale.ipynb#cell-id=ex-entropy) | built |
# | gradient of a softmax, and of one that is nearly one-hot | [slope](03_scale.ipynb#cell-id=slope) | measured |
# | entropy and slope against d_k, scaled and not: saturation, vanishing gradient | [saturation](03_scale.ipynb#cell-id=saturation) | measured |
# | why not divide by d_k: weights too flat, blind to a key that fits | [match](03_scale.ipynb#cell-id=match) | measured |
# | the scale as a temperature | [temperature](03_scale.ipynb#cell-id=temperature) | measured |
# | overflow of exp in float16 | [overflow](03_scale.ipynb#cell-id=overflow) | measured |
# | numerically safe softmax: subtract the largest score | [ex-softmax](03_scale.ipynb#cell-id=ex-softmax) | built |
# | overflow of the product, before it is scaled | [product](03_scale.ipynb#cell-id=product) | measured |
# | weights at a temperature, the query divided first | [ex-scale](03_scale.ipynb#cell-id=ex-scale) | built |
# | a small model trained with no scale, √d_k, d_k | [break-scale](03_scale.ipynb#cell-id=break-scale) | measured |
# | no scale, √d_k, d_k with five seeds and two starts | [table](03_scale.ipynb#cell-id=table) | measured |

# %% [markdown] name="index-04"
# ### 04 The causal mask
#
# | what | where | how |
# |---|---|---|
# | targets: for each input token the one that follows | [ex-targets](04_causal_mask.ipynb#cell-id=ex-targets) | built |
# | softmax(scores + M), with −∞ in the mask before the softmax | [formula](04_causal_mask.ipynb#cell-id=formula) | formula |
# | causal mask: who may read whom (the lower triangle) | [ex-mask](04_causal_mask.ipynb#cell-id=ex-mask) | built |
# | why −∞ before the softmax, and not 0, and not after | [break-three-ways](04_causal_mask.ipynb#cell-id=break-three-ways) | measured |
# | masked attention, with any mask | [ex-attention](04_causal_mask.ipynb#cell-id=ex-attention) | built |
# | leak test: change a future token, and no earlier output moves | [ex-leak](04_causal_mask.ipynb#cell-id=ex-leak) | built |
# | the mask forgotten: a loss too good to be true | [peeking-curve](04_causal_mask.ipynb#cell-id=peeking-curve) | measured |
# | how generation then fails: let it write, and see whose hand that is | [peeking-writes](04_causal_mask.ipynb#cell-id=peeking-writes) | measured |
# | T predictions from T tokens in one pass | [one-pass](04_causal_mask.ipynb#cell-id=one-pass) | measured |
# | loss in training and in writing, with and without the mask | [honest](04_causal_mask.ipynb#cell-id=honest) | measured |
# | padding mask | [padding](04_causal_mask.ipynb#cell-id=padding) | built |
# | a row with nothing to attend to: NaN, or zeros | [break-nothing](04_causal_mask.ipynb#cell-id=break-nothing) | measured |
# | causal against bidirectional | [both-ways](04_causal_mask.ipynb#cell-id=both-ways) | measured |

# %% [markdown] name="index-05"
# ### 05 Many heads
#
# | what | where | how |
# |---|---|---|
# | two heads side by side, by loop | [two-heads-by-loop](05_many_heads.ipynb#cell-id=two-heads-by-loop) | built |
# | MultiHead = Concat(head₁ … head_h) W_O; 512 = 8 × 64 (Vaswani et al. 2017), 12,288 = 96 × 128 (Brown et al. 2020) | [formula](05_many_heads.ipynb#cell-id=formula) | formula |
# | concatenate and W_O: a sum over heads | [sum-of-heads](05_many_heads.ipynb#cell-id=sum-of-heads) | measured |
# | reshape, then transpose: cut into heads without a loop | [layout](05_many_heads.ipynb#cell-id=layout) | measured |
# | split into heads: (batch, head, position, d_head) | [ex-split](05_many_heads.ipynb#cell-id=ex-split) | built |
# | merge heads | [ex-merge](05_many_heads.ipynb#cell-id=ex-merge) | built |
# | multi-head attention | [ex-heads](05_many_heads.ipynb#cell-id=ex-heads) | built |
# | layer, loop, library and PyTorch: equal | [same](05_many_heads.ipynb#cell-id=same) | measured |
# | view alone: same shapes, and tokens mixed | [break-view](05_many_heads.ipynb#cell-id=break-view) | measured |
# | parameters of multi-head attention | [ex-count](05_many_heads.ipynb#cell-id=ex-count) | built |
# | FLOPs of any number of heads: the same | [cost](05_many_heads.ipynb#cell-id=cost) | counted |
# | two relations: one head cannot hold both, two can | [heads-compared](05_many_heads.ipynb#cell-id=heads-compared) | measured |
# | one head and a feed-forward layer can as well | [with-ffn](05_many_heads.ipynb#cell-id=with-ffn) | measured |
# | ablation of a head: taken out of a copy | [ex-ablate](05_many_heads.ipynb#cell-id=ex-ablate) | built |
# | what is lost without a head | [ablate](05_many_heads.ipynb#cell-id=ablate) | measured |
# | two heads with fixed weights are a convolution, each with a kernel | [convolution](05_many_heads.ipynb#cell-id=convolution) | measured |
# | heads for syntax, coreference, brackets, neighbours (Clark et al. 2019; Ebrahimi et al. 2020); how many heads | [practice](05_many_heads.ipynb#cell-id=practice) | cited |

# %% [markdown] name="index-06"
# ### 06 Word order I
#
# | what | where | how |
# |---|---|---|
# | order blindness: an encoder without positions, unmasked, stays at 1/7 | [blind](06_word_order.ipynb#cell-id=blind) | measured |
# | the causal mask carries order | [causal](06_word_order.ipynb#cell-id=causal) | measured |
# | sinusoidal positions: PE(p, 2i) = sin(p/10000^(2i/d)); wavelengths | [formula](06_word_order.ipynb#cell-id=formula) | formula |
# | sinusoidal positions | [ex-sinusoidal](06_word_order.ipynb#cell-id=ex-sinusoidal) | built |
# | position vectors are added to the token's embedding; no parameters | [same](06_word_order.ipynb#cell-id=same) | measured |
# | dot product against distance | [picture](06_word_order.ipynb#cell-id=picture) | measured |
# | sinusoidal: a head that reads the token to the left, by turning | [turn](06_word_order.ipynb#cell-id=turn) | measured |
# | fast hands alone, slow hands alone | [break-speeds](06_word_order.ipynb#cell-id=break-speeds) | measured |
# | learned positions (BERT, GPT-2): what happens past the trained length | [learned](06_word_order.ipynb#cell-id=learned) | measured |
# | ALiBi: a discount for distance | [ex-discount](06_word_order.ipynb#cell-id=ex-discount) | built |
# | ALiBi: slopes, for 3 heads as well | [ex-slopes](06_word_order.ipynb#cell-id=ex-slopes) | built |
# | slopes per head, also where their number is no power of two | [slopes-text](06_word_order.ipynb#cell-id=slopes-text) | explained |
# | ALiBi: a linear penalty on the scores | [ex-bias](06_word_order.ipynb#cell-id=ex-bias) | built |
# | ALiBi with slopes of its own | [own-slopes](06_word_order.ipynb#cell-id=own-slopes) | measured |
# | sinusoidal, longer table, ALiBi: trained side by side | [side-by-side](06_word_order.ipynb#cell-id=side-by-side) | measured |
# | the schemes with two seeds, within the trained length and past it | [table](06_word_order.ipynb#cell-id=table) | measured |
# | who uses what: learned tables, ALiBi (Le Scao et al. 2022) | [practice](06_word_order.ipynb#cell-id=practice) | cited |

# %% [markdown] name="index-07"
# ### 07 Word order II: RoPE
#
# | what | where | how |
# |---|---|---|
# | RoPE: pairs (a, b) turned by the angle m·θᵢ, θᵢ = 10000^(−2i/d) | [formula](07_rotary_positions.ipynb#cell-id=formula) | formula |
# | ⟨R(m)q, R(n)k⟩ depends on m − n only | [formula](07_rotary_positions.ipynb#cell-id=formula) | proved |
# | the same words, positions added or turned: checked numerically, a flat line | [relative](07_rotary_positions.ipynb#cell-id=relative) | measured |
# | RoPE angles, in float32 | [ex-angles](07_rotary_positions.ipynb#cell-id=ex-angles) | built |
# | RoPE: rotation of pairs | [ex-rotate](07_rotary_positions.ipynb#cell-id=ex-rotate) | built |
# | loop, rotation matrix, library: equal | [same](07_rotary_positions.ipynb#cell-id=same) | measured |
# | a model with RoPE, trained | [train](07_rotary_positions.ipynb#cell-id=train) | measured |
# | from the interleaved to the half-split layout | [ex-convert](07_rotary_positions.ipynb#cell-id=ex-convert) | built |
# | the wrong layout: no error, a loss of a nat | [break-layout](07_rotary_positions.ipynb#cell-id=break-layout) | measured |
# | angles in bfloat16 go wrong | [break-bfloat16](07_rotary_positions.ipynb#cell-id=break-bfloat16) | measured |
# | train short, test long: none, sinusoidal, learned, ALiBi, RoPE | [five-schemes](07_rotary_positions.ipynb#cell-id=five-schemes) | measured |
# | turns of each pair within the trained length: angles never met | [turns](07_rotary_positions.ipynb#cell-id=turns) | counted |
# | NTK-aware scaling: the base | [ex-ntk](07_rotary_positions.ipynb#cell-id=ex-ntk) | built |
# | position interpolation, NTK-aware scaling and YaRN: how much each slows a pair | [slowing](07_rotary_positions.ipynb#cell-id=slowing) | measured |
# | interpolation, NTK-aware scaling and YaRN on the trained model, without training | [stretch](07_rotary_positions.ipynb#cell-id=stretch) | measured |
# | which stretching helps without retraining, and after 100 steps | [three-seeds](07_rotary_positions.ipynb#cell-id=three-seeds) | measured |
# | LLaMA (Touvron et al. 2023) and Qwen (Bai et al. 2023) use RoPE | [sources](07_rotary_positions.ipynb#cell-id=sources) | cited |

# %% [markdown] name="index-08"
# ### 08 The block
#
# | what | where | how |
# |---|---|---|
# | a tower of 48 layers, of which the first one hears nothing | [tower](08_the_block.ipynb#cell-id=tower) | measured |
# | gradient reach at depth 48: plain, drawn with care, with residual connections and without | [reach](08_the_block.ipynb#cell-id=reach) | measured |
# | without residual connections: what a tower learns | [break-residual](08_the_block.ipynb#cell-id=break-residual) | measured |
# | residual stream: a shared channel that every layer reads and writes | [ledger](08_the_block.ipynb#cell-id=ledger) | built |
# | the stream grows from layer to layer | [growth](08_the_block.ipynb#cell-id=growth) | measured |
# | LayerNorm by hand, by loops | [norm-loops](08_the_block.ipynb#cell-id=norm-loops) | built |
# | LayerNorm | [ex-norm](08_the_block.ipynb#cell-id=ex-norm) | built |
# | RMSNorm, and what it leaves out | [rms](08_the_block.ipynb#cell-id=rms) | measured |
# | ReLU, GELU, SiLU | [bends](08_the_block.ipynb#cell-id=bends) | measured |
# | feed-forward layer, for each token alone; d_ff = 4·d_model | [ex-feed-forward](08_the_block.ipynb#cell-id=ex-feed-forward) | built |
# | SwiGLU at equal parameters | [ex-width](08_the_block.ipynb#cell-id=ex-width) | built |
# | ReLU, GELU, SwiGLU compared, by two initialisations | [kinds](08_the_block.ipynb#cell-id=kinds) | measured |
# | Pre-LN block, x + f(LN(x)); LN; FFN | [formula](08_the_block.ipynb#cell-id=formula) | formula |
# | Pre-LN block | [ex-block](08_the_block.ipynb#cell-id=ex-block) | built |
# | attention moves information between tokens, feed-forward works on each alone | [moves](08_the_block.ipynb#cell-id=moves) | measured |
# | drawing of the block, Pre-LN and Post-LN, LN(x + f(x)) | [drawing](08_the_block.ipynb#cell-id=drawing) | built |
# | gradients at birth: Post-LN and Pre-LN | [at-birth](08_the_block.ipynb#cell-id=at-birth) | measured |
# | training with and without warm-up, Post-LN and Pre-LN | [placement](08_the_block.ipynb#cell-id=placement) | measured |
# | two thirds of a block's parameters are feed-forward | [count](08_the_block.ipynb#cell-id=count) | counted |

# %% [markdown] name="index-09"
# ### 09 A GPT, BERT and T5
#
# | what | where | how |
# |---|---|---|
# | blocks alone: millions of parameters are missing | [blocks-alone](09_a_gpt_from_its_parts.ipynb#cell-id=blocks-alone) | counted |
# | GPT: embedding, blocks, final norm, head | [ex-gpt](09_a_gpt_from_its_parts.ipynb#cell-id=ex-gpt) | built |
# | x = E + P; block after block; logits | [formula](09_a_gpt_from_its_parts.ipynb#cell-id=formula) | formula |
# | your GPT and the library's: the same numbers | [same](09_a_gpt_from_its_parts.ipynb#cell-id=same) | measured |
# | weight tying: one matrix for embedding and head | [question-answer](09_a_gpt_from_its_parts.ipynb#cell-id=question-answer) | explained |
# | GPT with sinusoids or rotary positions in place of a table | [order](09_a_gpt_from_its_parts.ipynb#cell-id=order) | measured |
# | first loss of a newborn: surer than it should be | [first-loss](09_a_gpt_from_its_parts.ipynb#cell-id=first-loss) | measured |
# | initialisation: the first loss is ln V | [initialise](09_a_gpt_from_its_parts.ipynb#cell-id=initialise) | built |
# | initialisation too small and too large | [break-std](09_a_gpt_from_its_parts.ipynb#cell-id=break-std) | measured |
# | parameters of a GPT, by formula | [ex-parameters](09_a_gpt_from_its_parts.ipynb#cell-id=ex-parameters) | built |
# | GPT-2 (124,439,808) and GPT-3 (96 layers; 174,604,259,328, about 175 billion) | [counts](09_a_gpt_from_its_parts.ipynb#cell-id=counts) | counted |
# | shares of all parameters: embedding, positions, attention, feed-forward | [shares](09_a_gpt_from_its_parts.ipynb#cell-id=shares) | counted |
# | BERT's masked tokens: fill in the blank | [ex-mask](09_a_gpt_from_its_parts.ipynb#cell-id=ex-mask) | built |
# | an encoder: the library's GPT without the mask | [encoder](09_a_gpt_from_its_parts.ipynb#cell-id=encoder) | measured |
# | BERT: reads both ways, against a GPT that reads to the left | [bert](09_a_gpt_from_its_parts.ipynb#cell-id=bert) | measured |
# | the same with three seeds; vowels or 15 % hidden | [table](09_a_gpt_from_its_parts.ipynb#cell-id=table) | measured |
# | cross-attention: query from one text, key and value from another | [cross](09_a_gpt_from_its_parts.ipynb#cell-id=cross) | measured |
# | what a decoder reads while it writes: the target, shifted | [ex-shift](09_a_gpt_from_its_parts.ipynb#cell-id=ex-shift) | built |
# | T5: encoder–decoder, text to text; copy, reverse, sort | [t5](09_a_gpt_from_its_parts.ipynb#cell-id=t5) | measured |
# | why chat models kept the decoder (Brown et al. 2020; Raffel et al. 2019; Wang et al. 2022) | [decoder](09_a_gpt_from_its_parts.ipynb#cell-id=decoder) | cited |
# | BERT (Devlin et al. 2018): masked language modelling | [bert-text](09_a_gpt_from_its_parts.ipynb#cell-id=bert-text) | cited |
# | T5 (Raffel et al. 2019): every task text to text | [t5-tasks-text](09_a_gpt_from_its_parts.ipynb#cell-id=t5-tasks-text) | cited |

# %% [markdown] name="index-10"
# ### 10 Training
#
# | what | where | how |
# |---|---|---|
# | training, validation and test split | [splits](10_train_it.ipynb#cell-id=splits) | explained |
# | a loop that runs and does not learn | [careless](10_train_it.ipynb#cell-id=careless) | measured |
# | random windows | [ex-windows](10_train_it.ipynb#cell-id=ex-windows) | built |
# | cross-entropy; AdamW: θ ← θ − ηλθ − η m̂/(√v̂ + ε) | [formula](10_train_it.ipynb#cell-id=formula) | formula |
# | cross-entropy: loop, one line, PyTorch | [loss-tiny](10_train_it.ipynb#cell-id=loss-tiny) | built |
# | AdamW by hand | [adamw](10_train_it.ipynb#cell-id=adamw) | built |
# | groups of parameters with and without weight decay | [groups](10_train_it.ipynb#cell-id=groups) | counted |
# | a training step: zero the gradient, backward, clip, step | [ex-step](10_train_it.ipynb#cell-id=ex-step) | built |
# | overfit one batch first | [break-one-batch](10_train_it.ipynb#cell-id=break-one-batch) | measured |
# | warm-up and cosine | [ex-schedule](10_train_it.ipynb#cell-id=ex-schedule) | built |
# | the loop: windows, rate, step, validation | [loop](10_train_it.ipynb#cell-id=loop) | built |
# | honest validation over the whole split | [ex-evaluate](10_train_it.ipynb#cell-id=ex-evaluate) | built |
# | validation by a few random batches scatters | [noise](10_train_it.ipynb#cell-id=noise) | measured |
# | read a loss curve: rate too low, too high, no warm-up | [break-recipe](10_train_it.ipynb#cell-id=break-recipe) | measured |
# | overfitting: the training loss falls, the validation loss climbs | [overfit](10_train_it.ipynb#cell-id=overfit) | measured |
# | stop and resume: weights, windows, dropout, optimiser, step; each left out once | [break-resume](10_train_it.ipynb#cell-id=break-resume) | measured |
# | the very same run, by the library: every loss equal | [resume-library](10_train_it.ipynb#cell-id=resume-library) | measured |
# | AdamW against Muon, with seeds | [one-change](10_train_it.ipynb#cell-id=one-change) | measured |
# | a Shakespeare GPT on a CPU, one thread, half a minute: dashboard with samples and live curve | [real-text](10_train_it.ipynb#cell-id=real-text) | explained |
# | text that the run never read | [never-read](10_train_it.ipynb#cell-id=never-read) | measured |

# %% [markdown] name="index-11"
# ### 11 Training for real
#
# | what | where | how |
# |---|---|---|
# | FLOPs of a matrix product, counted by loop | [flops-tiny](11_train_on_a_gpu.ipynb#cell-id=flops-tiny) | counted |
# | 6 N + 12 L d T FLOPs a token; MFU | [formula](11_train_on_a_gpu.ipynb#cell-id=formula) | formula |
# | FLOPs of a training | [ex-flops](11_train_on_a_gpu.ipynb#cell-id=ex-flops) | built |
# | the peak of a device; MFU | [peak](11_train_on_a_gpu.ipynb#cell-id=peak) | measured |
# | float16, bfloat16, float32 | [formats](11_train_on_a_gpu.ipynb#cell-id=formats) | measured |
# | weights in bfloat16 stop moving; master weights in float32 | [break-weights](11_train_on_a_gpu.ipynb#cell-id=break-weights) | measured |
# | loss scaling: a scaler for float16 | [ex-unscale](11_train_on_a_gpu.ipynb#cell-id=ex-unscale) | built |
# | mixed precision, torch.compile, fused optimiser, fused attention: tokens a second | [ways](11_train_on_a_gpu.ipynb#cell-id=ways) | measured |
# | from plain to quick, change by change | [ladder](11_train_on_a_gpu.ipynb#cell-id=ladder) | measured |
# | Muon against AdamW | [muon-here](11_train_on_a_gpu.ipynb#cell-id=muon-here) | measured |
# | the real runs on Shakespeare and on Tang poetry | [runs](11_train_on_a_gpu.ipynb#cell-id=runs) | measured |
# | bits per character or byte, for other vocabularies | [ex-bits](11_train_on_a_gpu.ipynb#cell-id=ex-bits) | built |
# | bits per character and per byte of both corpora | [bits](11_train_on_a_gpu.ipynb#cell-id=bits) | measured |
# | verse: five or seven characters a line? | [verse](11_train_on_a_gpu.ipynb#cell-id=verse) | measured |
# | data parallelism: the gradient of all shares | [ex-together](11_train_on_a_gpu.ipynb#cell-id=ex-together) | built |
# | several GPUs: torchrun | [torchrun-text](11_train_on_a_gpu.ipynb#cell-id=torchrun-text) | explained |
# | what to expect on a GPU and on a CPU | [bands](11_train_on_a_gpu.ipynb#cell-id=bands) | estimated |
# | what to expect on Apple's GPUs | [practice](11_train_on_a_gpu.ipynb#cell-id=practice) | explained |

# %% [markdown] name="index-12"
# ### 12 Generation
#
# | what | where | how |
# |---|---|---|
# | greedy: the likeliest character, every time | [greedy](12_generate.ipynb#cell-id=greedy) | measured |
# | temperature, by loop and by the library | [tiny](12_generate.ipynb#cell-id=tiny) | built |
# | to draw a character, each as often as its probability says | [draw](12_generate.ipynb#cell-id=draw) | built |
# | top-k and top-p on five letters | [tiny-filters](12_generate.ipynb#cell-id=tiny-filters) | measured |
# | top-p: keep the likeliest until p is reached | [ex-top-p](12_generate.ipynb#cell-id=ex-top-p) | built |
# | effect on the distribution, drawn: temperature, top-k and top-p after JULIE and after JULIET | [filters-picture](12_generate.ipynb#cell-id=filters-picture) | measured |
# | playground: temperature, top-k and top-p by sliders | [playground](12_generate.ipynb#cell-id=playground) | built |
# | repetition and unknown words, by rule | [faults](12_generate.ipynb#cell-id=faults) | measured |
# | against repetition: no repeated pieces; a penalty | [no-repeats](12_generate.ipynb#cell-id=no-repeats) | built |
# | repetition penalty (Keskar et al. 2019); no repeated n tokens (Paulus et al. 2017) | [faults-answer](12_generate.ipynb#cell-id=faults-answer) | cited |
# | keys of the past do not change under the causal mask, in no layer | [what-changes](12_generate.ipynb#cell-id=what-changes) | measured |
# | attention of a new token over kept keys and values: the KV cache | [formula](12_generate.ipynb#cell-id=formula) | formula |
# | a KV cache by hand: kept keys and values, by loop and as one row | [tiny-cache](12_generate.ipynb#cell-id=tiny-cache) | built |
# | mask of new tokens over a cache | [ex-mask](12_generate.ipynb#cell-id=ex-mask) | built |
# | key–value cache in a GPT | [ex-cached](12_generate.ipynb#cell-id=ex-cached) | built |
# | cached equals uncached: prompt at once, in pieces, one by one; in batches, past the window | [same](12_generate.ipynb#cell-id=same) | measured |
# | your cache and your top-p write on: the animal, and its Chinese twin | [summit](12_generate.ipynb#cell-id=summit) | measured |
# | three bugs of a cache: positions that start anew, no mask, one key short | [break-cache](12_generate.ipynb#cell-id=break-cache) | measured |
# | past the window: from the cache, or anew | [past-window](12_generate.ipynb#cell-id=past-window) | measured |
# | the same text with the cache and without it | [twice](12_generate.ipynb#cell-id=twice) | measured |
# | multiplications a step: O(n) from the cache, O(n²) anew | [count](12_generate.ipynb#cell-id=count) | counted |
# | time for a character against length: anew or from the cache (speed-up) | [gain](12_generate.ipynb#cell-id=gain) | measured |
# | bytes of a cache: 2 · batch · length · layers · kv_heads · d_head · bytes | [ex-bytes](12_generate.ipynb#cell-id=ex-bytes) | built |
# | 80 layers, 64 heads of 128, 4,096 tokens: 10.7 GB (10.0 GiB); Llama-2-70B with 8 KV heads: 1.34 GB | [price](12_generate.ipynb#cell-id=price) | counted |
# | prefill and decode (Pope et al. 2022); pages (Kwon et al. 2023) | [practice](12_generate.ipynb#cell-id=practice) | cited |

# %% [markdown] name="index-13"
# ### 13 Looking inside
#
# | what | where | how |
# |---|---|---|
# | capture the weights of any layer, from the pass that ran | [look](13_look_inside.ipynb#cell-id=look) | measured |
# | head scores on paper: previous token, induction | [paper](13_look_inside.ipynb#cell-id=paper) | counted |
# | score of a head, and chance | [formula](13_look_inside.ipynb#cell-id=formula) | formula |
# | head scores as matrices, and by the library | [matrix](13_look_inside.ipynb#cell-id=matrix) | measured |
# | score of a previous-token head | [ex-previous](13_look_inside.ipynb#cell-id=ex-previous) | built |
# | chance: what a head scores that reads evenly | [ex-chance](13_look_inside.ipynb#cell-id=ex-chance) | built |
# | places of an induction head | [ex-induction](13_look_inside.ipynb#cell-id=ex-induction) | built |
# | types of heads: previous token, first-token sink, same token (character), line start, induction (Clark et al. 2019; Olsson et al. 2022) | [question-answer](13_look_inside.ipynb#cell-id=question-answer) | cited |
# | all heads of both models by type, against chance | [scores-board](13_look_inside.ipynb#cell-id=scores-board) | measured |
# | a fairer chance: places of another text | [elsewhere](13_look_inside.ipynb#cell-id=elsewhere) | measured |
# | heatmaps for both corpora | [pictures](13_look_inside.ipynb#cell-id=pictures) | measured |
# | explorer over layers, heads and tokens | [explorer](13_look_inside.ipynb#cell-id=explorer) | built |
# | ablation in the running model | [ex-ablate](13_look_inside.ipynb#cell-id=ex-ablate) | built |
# | a head ablated: zeros or its mean | [zero-or-mean](13_look_inside.ipynb#cell-id=zero-or-mean) | measured |
# | which predictions get worse without a head | [worse](13_look_inside.ipynb#cell-id=worse) | measured |
# | where a head reads is not what it is for: the same picture, another job | [worse-answer](13_look_inside.ipynb#cell-id=worse-answer) | explained |
# | what is passed on: weight times value | [received](13_look_inside.ipynb#cell-id=received) | measured |
# | a head for rhymes | [rhyme](13_look_inside.ipynb#cell-id=rhyme) | measured |
# | an induction head forms in two layers, on repeated sequences | [induction](13_look_inside.ipynb#cell-id=induction) | measured |
# | one layer finds no induction head: answers right after some steps | [break-one-layer](13_look_inside.ipynb#cell-id=break-one-layer) | measured |
# | a head of several alike: silence one, another, all | [redundant](13_look_inside.ipynb#cell-id=redundant) | measured |
# | is attention an explanation? (Jain & Wallace 2019; Wiegreffe & Pinter 2019) | [practice](13_look_inside.ipynb#cell-id=practice) | cited |

# %% [markdown] name="index-14"
# ### 14 The bill and FlashAttention
#
# | what | where | how |
# |---|---|---|
# | bytes of the score matrix, from our sentence to all of Shakespeare | [matrix-bytes](14_the_bill.ipynb#cell-id=matrix-bytes) | counted |
# | double the context: twice the FLOPs of projections, four times those of scores (n²) | [flops](14_the_bill.ipynb#cell-id=flops) | counted |
# | time and memory (largest tensor) of attention written out (naive) and PyTorch's (fused), side by side | [bill](14_the_bill.ipynb#cell-id=bill) | measured |
# | HBM against SRAM; 40.3 GB or 4.4 GB moved (Dao et al. 2022) | [bill-answer](14_the_bill.ipynb#cell-id=bill-answer) | cited |
# | online softmax by hand, word by word | [loop](14_the_bill.ipynb#cell-id=loop) | built |
# | online softmax: m, ℓ, o, and how two parts merge | [formula](14_the_bill.ipynb#cell-id=formula) | formula |
# | online softmax: largest score and total, in chunks | [ex-online](14_the_bill.ipynb#cell-id=ex-online) | built |
# | merge two parts of the keys | [ex-merge](14_the_bill.ipynb#cell-id=ex-merge) | built |
# | attention tile by tile (FlashAttention) | [ex-tiled](14_the_bill.ipynb#cell-id=ex-tiled) | built |
# | exact for any tile size | [same](14_the_bill.ipynb#cell-id=same) | measured |
# | forget to rescale | [break-rescale](14_the_bill.ipynb#cell-id=break-rescale) | measured |
# | bytes moved tile by tile | [ex-bytes](14_the_bill.ipynb#cell-id=ex-bytes) | built |
# | bytes moved by plain and tiled attention, against length | [bytes-picture](14_the_bill.ipynb#cell-id=bytes-picture) | counted |
# | the way back without the weights: the same gradients | [backward](14_the_bill.ipynb#cell-id=backward) | measured |
# | sliding-window attention: something else | [window](14_the_bill.ipynb#cell-id=window) | measured |
# | what a window costs in loss | [window-loss](14_the_bill.ipynb#cell-id=window-loss) | measured |
# | ring attention: parts merged across devices | [ring](14_the_bill.ipynb#cell-id=ring) | built |
# | a million tokens: FLOPs of attention and of all else | [million](14_the_bill.ipynb#cell-id=million) | counted |
# | what made million-token contexts possible: fused attention, with memory that grows with n, and more; 2–4 times as fast on GPUs (Dao 2023), GPT-2 trained 3 times (Dao et al. 2022) | [practice](14_the_bill.ipynb#cell-id=practice) | cited |

# %% [markdown] name="index-15"
# ### 15 Smaller caches
#
# | what | where | how |
# |---|---|---|
# | how many readers fit: caches with 64 and 8 key heads | [readers](15_smaller_caches.ipynb#cell-id=readers) | counted |
# | query heads that share keys, by loop | [by-loop](15_smaller_caches.ipynb#cell-id=by-loop) | built |
# | grouped-query and multi-query attention (GQA, MQA) | [ex-groups](15_smaller_caches.ipynb#cell-id=ex-groups) | built |
# | loop, yours, library: the same | [same](15_smaller_caches.ipynb#cell-id=same) | measured |
# | MHA to GQA: the mean of a group's heads | [ex-convert](15_smaller_caches.ipynb#cell-id=ex-convert) | built |
# | the conversion at once, without training | [convert](15_smaller_caches.ipynb#cell-id=convert) | measured |
# | recovery by short training | [recover](15_smaller_caches.ipynb#cell-id=recover) | measured |
# | multi-head latent attention (MLA): latent, up and down | [formula](15_smaller_caches.ipynb#cell-id=formula) | formula |
# | weight absorption: attention over latents, no key made | [ex-absorb](15_smaller_caches.ipynb#cell-id=ex-absorb) | built |
# | RoPE: why a turned key cannot be absorbed | [break-rope](15_smaller_caches.ipynb#cell-id=break-rope) | measured |
# | MHA, GQA, MQA, MLA in the same GPT, with the same budget of parameters | [four-kinds](15_smaller_caches.ipynb#cell-id=four-kinds) | counted |
# | cache bytes of MHA, GQA, MQA, MLA: measured and by formula | [bytes-measured](15_smaller_caches.ipynb#cell-id=bytes-measured) | measured |
# | decoding: milliseconds a step | [speed](15_smaller_caches.ipynb#cell-id=speed) | measured |
# | validation losses of MHA, GQA, MQA, MLA with five seeds | [five-seeds](15_smaller_caches.ipynb#cell-id=five-seeds) | measured |
# | quality at scale (Shazeer 2019; Ainslie et al. 2023; DeepSeek-AI 2024) | [five-seeds-answer](15_smaller_caches.ipynb#cell-id=five-seeds-answer) | cited |
# | texts whose caches fit into memory | [ex-fit](15_smaller_caches.ipynb#cell-id=ex-fit) | built |
# | published models and their caches: bytes a token | [cards](15_smaller_caches.ipynb#cell-id=cards) | counted |
# | cache calculator | [explorer](15_smaller_caches.ipynb#cell-id=explorer) | built |
# | who uses what: LLaMA-2 and 3 GQA, DeepSeek MLA, PaLM and Falcon MQA; why 8 (Ainslie et al. 2023) | [cards-answer](15_smaller_caches.ipynb#cell-id=cards-answer) | cited |

# %% [markdown] name="index-16"
# ### 16 Mixture of experts
#
# | what | where | how |
# |---|---|---|
# | routing collapse without the balancing loss: the load of each expert as a bar | [collapse](16_mixture_of_experts.ipynb#cell-id=collapse) | measured |
# | router and gates: y = Σ g · FFN(x) over the top k | [formula](16_mixture_of_experts.ipynb#cell-id=formula) | formula |
# | top-k router | [ex-route](16_mixture_of_experts.ipynb#cell-id=ex-route) | built |
# | expert FFNs: the mixture | [ex-mix](16_mixture_of_experts.ipynb#cell-id=ex-mix) | built |
# | loop and library: the same mixture | [same](16_mixture_of_experts.ipynb#cell-id=same) | measured |
# | total parameters of Mixtral, 8 experts and 2 chosen, as worked numbers: 46,702,792,704 | [count](16_mixture_of_experts.ipynb#cell-id=count) | counted |
# | active parameters: how many of 46,702,792,704 one token meets | [ex-active](16_mixture_of_experts.ipynb#cell-id=ex-active) | built |
# | balancing loss | [ex-balance](16_mixture_of_experts.ipynb#cell-id=ex-balance) | built |
# | balancing loss: 1 at balance, E at collapse | [extremes](16_mixture_of_experts.ipynb#cell-id=extremes) | measured |
# | health with the balancing loss | [cure](16_mixture_of_experts.ipynb#cell-id=cure) | measured |
# | load, dead experts and loss, with five seeds | [table](16_mixture_of_experts.ipynb#cell-id=table) | measured |
# | a frozen router collapses too | [break-frozen](16_mixture_of_experts.ipynb#cell-id=break-frozen) | measured |
# | capacity of an expert: who has room | [ex-capacity](16_mixture_of_experts.ipynb#cell-id=ex-capacity) | built |
# | tokens dropped at a capacity factor of 1.25 | [dropped](16_mixture_of_experts.ipynb#cell-id=dropped) | measured |
# | a capacity lets texts of a batch depend on one another | [leak](16_mixture_of_experts.ipynb#cell-id=leak) | measured |
# | cost of moving tokens between devices | [devices](16_mixture_of_experts.ipynb#cell-id=devices) | counted |
# | the induction model, trained | [icl-train](16_mixture_of_experts.ipynb#cell-id=icl-train) | measured |
# | in-context learning: a dictionary, for which it was never trained | [dictionary](16_mixture_of_experts.ipynb#cell-id=dictionary) | measured |
# | a passage of Shakespeare read again: the character GPT is as surprised | [character-gpt](16_mixture_of_experts.ipynb#cell-id=character-gpt) | measured |
# | capstone: one layer's attention in a picture: what a head looks at | [look](16_mixture_of_experts.ipynb#cell-id=look) | measured |
# | a claim about a head: attention on counterparts, against chance | [measure](16_mixture_of_experts.ipynb#cell-id=measure) | measured |
# | without the head: closing lines get harder to predict | [needed](16_mixture_of_experts.ipynb#cell-id=needed) | measured |
# | capstone: a story about a head, checked by a rubric | [rubric](16_mixture_of_experts.ipynb#cell-id=rubric) | measured |
# | capstone: your own corpus, head and story | [ex-story](16_mixture_of_experts.ipynb#cell-id=ex-story) | built |
# | what experts are chosen for: syntax rather than topics (Jiang et al. 2024) | [practice](16_mixture_of_experts.ipynb#cell-id=practice) | cited |
