"""Exercises and quiz of lesson 09: a GPT from its parts, its size, and its cousins' data."""

import torch
from torch import nn

from course_lib.exercises.lesson_04 import causal_mask
from course_lib.exercises.lesson_08 import Block, LayerNorm, require_learning
from course_lib.exercises.model import Choice, Exercise, Misconception, Question
from course_lib.exercises.trial import WrongParts


class GPT(nn.Module):
    """Tokens (batch, position) → logits (batch, position, vocab_size): scores for each next token.

    Attributes: token_embedding and position_embedding, each an nn.Embedding; blocks, an
    nn.ModuleList of Block; final_norm, a LayerNorm; head, an nn.Linear without bias whose weight
    is that of token_embedding.
    """

    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(context_length, d_model)
        self.blocks = nn.ModuleList(Block(d_model, n_heads) for _ in range(n_layers))
        self.final_norm = LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.token_embedding.weight

    def forward(self, tokens):
        """Whole numbers (batch, position) → logits (batch, position, vocab_size)."""
        length = tokens.shape[1]
        x = self.token_embedding(tokens) + self.position_embedding(torch.arange(length))
        may_attend = causal_mask(length)
        for block in self.blocks:
            x = block(x, may_attend)
        return self.head(self.final_norm(x))


def gpt_parameters(vocab_size, context_length, n_layers, d_model):
    """How many numbers a GPT of this lesson learns: an int. Heads share d_model evenly."""
    norm = 2 * d_model  # weight and bias
    attention = 4 * (d_model * d_model + d_model)  # query, key, value, output, each with a bias
    feed_forward = d_model * 4 * d_model + 4 * d_model + 4 * d_model * d_model + d_model
    block = norm + attention + norm + feed_forward
    embeddings = vocab_size * d_model + context_length * d_model  # the head is the first of them
    return embeddings + n_layers * block + norm


def mask_tokens(tokens, hidden, mask_token):
    """What BERT reads, and what it has to say: (inputs, targets), each (batch, position), int64.

    tokens: (batch, position), int64. hidden: (batch, position), bool, True = to be hidden.
    inputs: mask_token where hidden, the token elsewhere.
    targets: the token where hidden; -100 elsewhere, which cross_entropy passes over.
    """
    return tokens.masked_fill(hidden, mask_token), tokens.masked_fill(~hidden, -100)


def decoder_inputs(target, start):
    """What the decoder reads while it writes the target (batch, position): the same shape.

    At each position the target's token before it; at the first one, `start`, a token (int).
    """
    first = torch.full_like(target[:, :1], start)
    return torch.cat([first, target[:, :-1]], dim=1)


# the GPT


def _numbers_for(sizes):
    """Numbers for every parameter of a GPT of these sizes, none of them 0 or 1."""
    generator = torch.Generator().manual_seed(9)
    numbers = {
        name: 0.4 * torch.randn(tensor.shape, generator=generator)
        + float(name.endswith("norm.weight"))
        for name, tensor in GPT(*sizes).state_dict().items()
    }
    return numbers | {"head.weight": numbers["token_embedding.weight"]}


def _require_parts(model, numbers):
    """Refuse a model whose parameters are not those of the lesson's GPT, or do not learn."""
    if not isinstance(model, nn.Module):
        name = type(model).__name__
        raise WrongParts(f"`{name}` is not a module yet: write `class {name}(nn.Module)`.")
    if isinstance(getattr(model, "head", None), nn.Embedding):
        raise WrongParts("`head` is an `nn.Embedding`; it should be an `nn.Linear`.")
    found = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    wanted = {name: tuple(tensor.shape) for name, tensor in numbers.items()}
    missing = {name: shape for name, shape in wanted.items() if name not in found}
    foreign = {name: shape for name, shape in found.items() if name not in wanted}
    resized = [n for n, shape in found.items() if n in wanted and shape != wanted[n]]
    says = []
    if missing:
        says.append(f"It lacks {_list_parts(missing)}.")
    if foreign:
        says.append(
            f"It has {_list_parts(foreign)}, which the lesson's GPT has not (a mask made in the "
            "constructor is no parameter: `register_buffer(…, persistent=False)`)."
        )
    if resized:
        name = resized[0]
        says.append(f"`{name}` has the shape {found[name]}; it should be {wanted[name]}.")
    if says:
        raise WrongParts(
            f"The parameters of your GPT are not those the check fills in. {' '.join(says)} "
            "Use the names in the docstring."
        )
    require_learning(model, wanted)


def _list_parts(parts):
    first, *others = parts.items()
    more = f" and {len(others)} more" if others else ""
    return f"`{first[0]} {first[1]}`{more}"


def _assembled(answer, sizes, tokens):
    """A GPT's logits, its size, and the gradients of its parameters, once known numbers are in it.

    It is called twice, for a text and for one that is a token shorter: what it kept must not matter.
    sizes: vocab_size, context_length, n_layers, d_model, n_heads.
    """
    numbers = _numbers_for(sizes)
    model = answer(*sizes)
    _require_parts(model, numbers)
    model.load_state_dict(numbers)
    logits = model(tokens)
    return {
        "logits": logits,
        "logits of a shorter text": model(tokens[:, :-1]),
        "number of parameters": sum(parameter.numel() for parameter in model.parameters()),
        "gradients": _gradients(model, logits),
    }


def _gradients(model, logits):
    """Of a fixed weighted sum of the logits, by name; of what cannot be logits there are none."""
    if not (isinstance(logits, torch.Tensor) and logits.is_floating_point()):
        return {}
    if not logits.requires_grad:
        raise WrongParts(
            "No gradient flows back from your logits, so nothing could be learned: did you use "
            "`torch.no_grad()`, `.detach()` or `.data` on the way? Writing a text needs no gradients, "
            "and switches them off outside the model; training needs them."
        )
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(10))
    # by every name it has: which name of a tied matrix comes first is the learner's choice
    named = dict(model.named_parameters(remove_duplicate=False))
    found = torch.autograd.grad(
        (logits * weights).sum(), list(named.values()), allow_unused=True, retain_graph=True
    )
    return {
        name: torch.zeros_like(parameter) if gradient is None else gradient
        for (name, parameter), gradient in zip(named.items(), found, strict=True)
    }


def _say_gpt(sizes, tokens):
    names = ("vocab_size", "context_length", "n_layers", "d_model", "n_heads")
    given = ", ".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))
    return f"`GPT({given})` and tokens of the shape {tuple(tokens.shape)}"


def _gpt_cases():
    def tokens(vocab_size, *shape):
        generator = torch.Generator().manual_seed(vocab_size)
        return torch.randint(vocab_size, shape, generator=generator)

    yield (11, 7, 2, 6, 3), tokens(11, 2, 5)
    yield (13, 11, 3, 8, 2), tokens(13, 5, 3)
    yield (5, 7, 1, 4, 1), tokens(5, 3, 7)


def _embedded(gpt, tokens):
    places = torch.arange(tokens.shape[1])
    return gpt.token_embedding(tokens) + gpt.position_embedding(places)


def _through(gpt, x, may_attend=None):
    """Blocks, final norm and head."""
    may_attend = causal_mask(x.shape[1]) if may_attend is None else may_attend
    for block in gpt.blocks:
        x = block(x, may_attend)
    return gpt.head(gpt.final_norm(x))


def _without_mask(gpt, tokens):
    x = _embedded(gpt, tokens)
    for block in gpt.blocks:
        x = block(x)
    return gpt.head(gpt.final_norm(x))


def _without_norm(gpt, tokens, x=None):
    x = _embedded(gpt, tokens) if x is None else x
    for block in gpt.blocks:
        x = block(x, causal_mask(tokens.shape[1]))
    return gpt.head(x)


def _with_forward(run):
    """The lesson's GPT with another forward pass."""

    class WrongGPT(GPT):
        def forward(self, tokens):
            return run(self, tokens)

    return WrongGPT


class _Untied(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        self.head.weight = nn.Parameter(self.head.weight.detach().clone())


class _PlainList(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, 0, d_model, n_heads)
        del self.blocks
        self.blocks = [Block(d_model, n_heads) for _ in range(n_layers)]


class _OneBlock(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, 0, d_model, n_heads)
        self.blocks = nn.ModuleList([Block(d_model, n_heads)] * n_layers)


class _HeadWithBias(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        self.head = nn.Linear(d_model, vocab_size)
        self.head.weight = self.token_embedding.weight


class _HeadIsTheEmbedding(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        self.head = self.token_embedding


class _HeadTurnedRound(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        self.head = nn.Linear(vocab_size, d_model, bias=False)


class _WithoutHead(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        del self.head


class _WithoutFinalNorm(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        del self.final_norm


class _BlocksWithSwappedSizes(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, 0, d_model, n_heads)
        self.blocks = nn.ModuleList(Block(n_heads, d_model) for _ in range(n_layers))


def _sideways(gpt, tokens):
    """Each block gets the embedding again, and their results are added up."""
    x, may_attend = _embedded(gpt, tokens), causal_mask(tokens.shape[1])
    return gpt.head(gpt.final_norm(sum(block(x, may_attend) for block in gpt.blocks)))


def _last_block_only(gpt, tokens):
    x = _embedded(gpt, tokens)
    for block in gpt.blocks:
        result = block(x, causal_mask(tokens.shape[1]))
    return gpt.head(gpt.final_norm(result))


def _normed_after_each(gpt, tokens):
    x = _embedded(gpt, tokens)
    for block in gpt.blocks:
        x = gpt.final_norm(block(x, causal_mask(tokens.shape[1])))
    return gpt.head(x)


def _added_once_more(gpt, tokens):
    x = _embedded(gpt, tokens)
    for block in gpt.blocks:
        x = x + block(x, causal_mask(tokens.shape[1]))
    return gpt.head(gpt.final_norm(x))


def _positions_in_each_block(gpt, tokens):
    x, positions = gpt.token_embedding(tokens), torch.arange(tokens.shape[1])
    for block in gpt.blocks:
        x = block(x + gpt.position_embedding(positions), causal_mask(tokens.shape[1]))
    return gpt.head(gpt.final_norm(x))


class _OneHead(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, 1)


class _MaskKept(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        self.may_attend = None

    def forward(self, tokens):
        if self.may_attend is None:
            self.may_attend = causal_mask(tokens.shape[1])
        return _through(self, _embedded(self, tokens), self.may_attend)


class _Sequence(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        self.blocks = nn.Sequential(*self.blocks)

    def forward(self, tokens):
        x = self.blocks(_embedded(self, tokens), causal_mask(tokens.shape[1]))
        return self.head(self.final_norm(x))


def _looked_up_by_floats(gpt, tokens):
    places = torch.arange(0.0, tokens.shape[1])
    return _through(gpt, gpt.token_embedding(tokens) + gpt.position_embedding(places))


def _characters_as_positions(gpt, tokens):
    return _through(gpt, gpt.token_embedding(tokens) + gpt.position_embedding(tokens))


def _positions_as_tokens(gpt, tokens):
    places = torch.arange(tokens.shape[1])
    return _through(gpt, gpt.token_embedding(tokens) + gpt.token_embedding(places))


GPT_CLASS = Exercise(
    id="09.gpt",
    title="Put the parts together",
    stars=3,
    minutes=10,
    solution=GPT,
    cases=_gpt_cases,
    call=_assembled,
    shown=_say_gpt,
    tolerance=1e-4,
    misconceptions=(
        Misconception(
            "no causal mask",
            _with_forward(
                lambda gpt, tokens: _through(
                    gpt,
                    _embedded(gpt, tokens),
                    torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool),
                )
            ),
            "Every token may read every token, the ones after it included. Trained so, your GPT would "
            "read each answer instead of predicting it. Give the blocks `causal_mask(length)`. (What "
            "you have built is the body of a BERT; its turn comes later in this lesson.)",
        ),
        Misconception(
            "mask turned round",
            _with_forward(
                lambda gpt, tokens: _through(
                    gpt, _embedded(gpt, tokens), ~causal_mask(tokens.shape[1])
                )
            ),
            "The mask is the wrong way round: tokens read only what comes after them, and the last one "
            "nothing. In this course True means *may attend*, so `causal_mask` goes in as it is.",
        ),
        Misconception(
            "each token alone",
            _with_forward(
                lambda gpt, tokens: _through(
                    gpt, _embedded(gpt, tokens), torch.eye(tokens.shape[1], dtype=torch.bool)
                )
            ),
            "Each token reads itself alone, so nothing of the text before it gets through: this is a "
            "bigram model with much arithmetic. `causal_mask(length)` is True on the diagonal *and* "
            "below it.",
        ),
        Misconception(
            "mask transposed",
            _with_forward(
                lambda gpt, tokens: _through(
                    gpt, _embedded(gpt, tokens), causal_mask(tokens.shape[1]).T
                )
            ),
            "Each token reads itself and what comes *after* it: this mask is the upper triangle. Rows "
            "are tokens that read, so True belongs below the diagonal: `causal_mask(length)` as it is.",
        ),
        Misconception(
            "mask of the whole context",
            _with_forward(
                lambda gpt, tokens: _through(
                    gpt, _embedded(gpt, tokens), causal_mask(gpt.position_embedding.num_embeddings)
                )
            ),
            "The mask is made for `context_length` tokens; a text may be shorter. Make it, or cut it, "
            "for as many as there are: `causal_mask(tokens.shape[1])`.",
        ),
        Misconception(
            "mask kept from the first text",
            _MaskKept,
            "Your GPT keeps the mask of the first text it was given, and the next text was shorter. "
            "Make it anew each time, `causal_mask(tokens.shape[1])`: it costs next to nothing. (Or keep "
            "one for `context_length` tokens, and cut it to the text's length.)",
        ),
        Misconception(
            "no mask given",
            _with_forward(_without_mask),
            "A block wants two things: the vectors, and who may attend to whom. Call "
            "`block(x, may_attend)`.",
        ),
        Misconception(
            "positions left out",
            _with_forward(lambda gpt, tokens: _through(gpt, gpt.token_embedding(tokens))),
            "Nothing is added for the position, so your GPT is told which characters came before, and "
            "of their order only what the mask betrays. Add `position_embedding` of 0, 1, 2, …",
        ),
        Misconception(
            "positions of the token table",
            _with_forward(_positions_as_tokens),
            "You look the positions up in `token_embedding`: position 3 then gets the vector of "
            "character 3. They have a table of their own, `position_embedding`.",
        ),
        Misconception(
            "characters as positions",
            _with_forward(_characters_as_positions),
            "You look the *characters* up in the table of positions. It wants to know where they "
            "stand: 0, 1, 2, …, `torch.arange(tokens.shape[1])`.",
        ),
        Misconception(
            "looked up by floats",
            _with_forward(_looked_up_by_floats),
            "An embedding is a table, and its rows are found by whole numbers; yours was given floats. "
            "Tokens are whole numbers as they come, and so is `torch.arange(tokens.shape[1])`, without "
            "a point and without `.float()`. (From vectors back to scores leads the head, no table.)",
        ),
        Misconception(
            "positions in each block",
            _with_forward(_positions_in_each_block),
            "You add the positions before every block. They are added once, to the token vectors: the "
            "residual stream carries them on from there.",
        ),
        Misconception(
            "positions of the whole context",
            _with_forward(
                lambda gpt, tokens: _through(
                    gpt, gpt.token_embedding(tokens) + gpt.position_embedding.weight
                )
            ),
            "You add all `context_length` position vectors; a text may be shorter than the context. "
            "Take as many as there are tokens: positions `torch.arange(tokens.shape[1])`.",
        ),
        Misconception(
            "positions along the batch",
            _with_forward(
                lambda gpt, tokens: _through(
                    gpt,
                    gpt.token_embedding(tokens)
                    + gpt.position_embedding(torch.arange(tokens.shape[0])),
                )
            ),
            "`tokens.shape[0]`, or `len(tokens)`, is the number of texts in the batch. Positions run "
            "along a text: `tokens.shape[1]` of them.",
        ),
        Misconception(
            "position of each text",
            _with_forward(
                lambda gpt, tokens: _through(
                    gpt,
                    gpt.token_embedding(tokens)
                    + gpt.position_embedding(torch.arange(tokens.shape[0]))[:, None],
                )
            ),
            "Each text of the batch gets one position vector for all its tokens. It is the tokens "
            "*within* a text that stand at 0, 1, 2, …: `tokens.shape[1]` of them.",
        ),
        Misconception(
            "embeddings multiplied",
            _with_forward(
                lambda gpt, tokens: _through(
                    gpt,
                    gpt.token_embedding(tokens)
                    * gpt.position_embedding(torch.arange(tokens.shape[1])),
                )
            ),
            "Token and position vectors are multiplied here. They are added: the stream then carries "
            "both, and each layer can read either.",
        ),
        Misconception(
            "embedding scaled",
            _with_forward(
                lambda gpt, tokens: _through(
                    gpt,
                    gpt.token_embedding(tokens) * gpt.token_embedding.weight.shape[1] ** 0.5
                    + gpt.position_embedding(torch.arange(tokens.shape[1])),
                )
            ),
            "The token vectors are multiplied by √d_model. Vaswani et al. do that and give no reason; one "
            "is that their sinusoids are of size 1. A learned table of positions finds the size it "
            "needs, and GPT-2 adds the two as they are.",
        ),
        Misconception(
            "final norm left out",
            _with_forward(_without_norm),
            "`final_norm` is made and never used. In a Pre-LN block the norms stand on the side "
            "branches, so the stream itself arrives at the head unnormalised: "
            "`self.head(self.final_norm(x))`.",
        ),
        Misconception(
            "final norm not made",
            _WithoutFinalNorm,
            "There is no `final_norm`. In a Pre-LN block the norms stand on the side branches; the "
            "stream itself has not been normalised when it reaches the head.",
        ),
        Misconception(
            "final norm before the blocks",
            _with_forward(
                lambda gpt, tokens: _without_norm(
                    gpt, tokens, gpt.final_norm(_embedded(gpt, tokens))
                )
            ),
            "You normalise before the blocks. `final_norm` is the last thing before the head: after "
            "the last block has written into the stream.",
        ),
        Misconception(
            "final norm after each block",
            _with_forward(_normed_after_each),
            "`final_norm` stands inside the loop, so the stream is squeezed after each block. It is "
            "needed once, after the last: one level of indentation less.",
        ),
        Misconception(
            "untied head",
            _Untied,
            "The logits are right, and yet there are too many parameters: the head has a matrix of its "
            "own. Tied means the *same* parameter, not a copy: "
            "`self.head.weight = self.token_embedding.weight`, without `.data` or `.clone()`.",
        ),
        Misconception(
            "head with a bias",
            _HeadWithBias,
            "The head has a bias, which the embedding it shares its matrix with has not: "
            "`nn.Linear(d_model, vocab_size, bias=False)`.",
        ),
        Misconception(
            "head is the embedding",
            _HeadIsTheEmbedding,
            "The head *is* the embedding here, and an embedding looks up whole numbers. Head and "
            "embedding share their `weight`, no more: make an `nn.Linear` and give it that weight.",
        ),
        Misconception(
            "head turned round",
            _HeadTurnedRound,
            "The head leads from d_model numbers to vocab_size scores: "
            "`nn.Linear(d_model, vocab_size, bias=False)`. Its `weight` has the shape (vocab_size, "
            "d_model) then, that of the embedding, so that they can be one.",
        ),
        Misconception(
            "head not made",
            _WithoutHead,
            "There is no `head`. Multiplying by the embedding's matrix does the same, but a tied head "
            "wants a name of its own: an `nn.Linear` whose `weight` is that of `token_embedding`.",
        ),
        Misconception(
            "blocks in a plain list",
            _PlainList,
            "The blocks are in a plain Python list, into which PyTorch does not look: "
            "`parameters()` would leave them out, and nothing in them would ever be trained. Put them "
            "into an `nn.ModuleList`.",
        ),
        Misconception(
            "one block many times",
            _OneBlock,
            "`[Block(…)] * n_layers` is one block n_layers times over, not n_layers blocks: they share "
            "all their numbers. Make a new one each time: `Block(d_model, n_heads) for _ in "
            "range(n_layers)`.",
        ),
        Misconception(
            "blocks in an nn.Sequential",
            _Sequence,
            "An `nn.Sequential` called as a whole hands on one thing, and a block wants two: the "
            "vectors, and who may attend to whom. Keep the blocks in an `nn.ModuleList` and loop: "
            "`x = block(x, may_attend)`.",
        ),
        Misconception(
            "sizes of the block swapped",
            _BlocksWithSwappedSizes,
            "The block's sizes have changed places: first its width, then the number of heads, "
            "`Block(d_model, n_heads)`.",
        ),
        Misconception(
            "one head",
            _OneHead,
            "The logits are those of blocks with one head each. Hand `n_heads` on: "
            "`Block(d_model, n_heads)`.",
        ),
        Misconception(
            "blocks side by side",
            _with_forward(_sideways),
            "Every block reads the embedding here, and their results are added up. Blocks are stacked: "
            "each reads what the one before it wrote, `x = block(x, may_attend)`.",
        ),
        Misconception(
            "only the last block counts",
            _with_forward(_last_block_only),
            "The result of each block gets a new name, and the next block reads the old one, so only "
            "the last has any effect. Write back into the same name: `x = block(x, may_attend)`.",
        ),
        Misconception(
            "stream added once more",
            _with_forward(_added_once_more),
            "You add the stream to what a block returns. The block has done that already, twice: it "
            "returns the stream with its own parts added.",
        ),
        Misconception(
            "softmax at the end",
            _with_forward(
                lambda gpt, tokens: _through(gpt, _embedded(gpt, tokens)).softmax(dim=-1)
            ),
            "These are probabilities. A model returns logits, the scores before the softmax: "
            "`cross_entropy` takes its own, and sampling changes the scores first (lesson 12).",
        ),
        Misconception(
            "logarithm of the softmax",
            _with_forward(
                lambda gpt, tokens: _through(gpt, _embedded(gpt, tokens)).log_softmax(dim=-1)
            ),
            "These are logarithms of probabilities. A model returns logits, the scores before the "
            "softmax: `cross_entropy` takes softmax and logarithm itself.",
        ),
        Misconception(
            "last position only",
            _with_forward(lambda gpt, tokens: _through(gpt, _embedded(gpt, tokens))[:, -1]),
            "You return the logits of the last position alone. That is enough to write with; to train, "
            "every position predicts its successor, so return all of them.",
        ),
        Misconception(
            "the likeliest token",
            _with_forward(lambda gpt, tokens: _through(gpt, _embedded(gpt, tokens)).argmax(dim=-1)),
            "You return the likeliest token in place of its score. Through `argmax` no gradient flows, "
            "so nothing could be learned; and sampling wants all the scores (lesson 12). Return the "
            "logits.",
        ),
    ),
    hints=(
        "In the constructor: five attributes and the tie. Which sizes has each? The docstring says "
        "what they are made of; the drawing above says in which order they act.",
        "The way of a text: look up its tokens; add the vectors of the positions "
        "`torch.arange(tokens.shape[1])`; then `x = block(x, may_attend)` for each block; norm; head.",
        "The tie is one line, after the head was made: "
        "`self.head.weight = self.token_embedding.weight`.",
    ),
    why="Seven lines of parts and six of flow. Everything that makes it *attend* is in the blocks; "
    "what you added turns characters into vectors and vectors into scores, with one matrix for both.",
)


# its size


def _size_cases():
    return [
        (11, 7, 2, 6),
        (5, 3, 1, 2),
        (13, 17, 3, 10),
        (257, 64, 20, 48),
        (1031, 128, 5, 24),
    ]  # all small: who builds a model and counts must not fill the memory


def _count(block, final=2, tables=lambda v, t: v + t):
    """A count with another block (a function of d), so many vectors at the end, and other tables."""
    return lambda vocab_size, context_length, n_layers, d_model: (
        tables(vocab_size, context_length) * d_model + n_layers * block(d_model) + final * d_model
    )


def _right_block(d):
    return 12 * d * d + 13 * d


PARAMETERS = Exercise(
    id="09.parameters",
    title="Count every number",
    stars=2,
    minutes=6,
    solution=gpt_parameters,
    cases=_size_cases,
    misconceptions=(
        Misconception(
            "head counted too",
            _count(_right_block, tables=lambda v, t: 2 * v + t),
            "The head's matrix is counted besides the embedding's. They are tied, one matrix in two "
            "roles, so it counts once: GPT-2 would have 163,037,184 otherwise.",
        ),
        Misconception(
            "positions left out",
            _count(_right_block, tables=lambda v, t: v),
            "The table of positions is missing: context_length vectors of d_model numbers.",
        ),
        Misconception(
            "head counted, positions left out",
            _count(_right_block, tables=lambda v, t: 2 * v),
            "Two slips: the head is the embedding's matrix and counts once with it; and the table of "
            "positions, context_length · d_model, is missing.",
        ),
        Misconception(
            "no final norm",
            _count(_right_block, final=0),
            "You are 2 · d_model short: the norm after the last block has a weight and a bias too.",
        ),
        Misconception(
            "half a final norm",
            _count(_right_block, final=1),
            "You are d_model short at the end: the final norm has a weight *and* a bias.",
        ),
        Misconception(
            "blocks only",
            lambda vocab_size, context_length, n_layers, d_model: n_layers * _right_block(d_model),
            "These are the blocks, and they are right. The two embedding tables and the final norm are "
            "still missing.",
        ),
        Misconception(
            "embeddings only",
            lambda vocab_size, context_length, n_layers, d_model: (
                (vocab_size + context_length) * d_model
            ),
            "These are the two tables, and they are right. The blocks and the final norm are still "
            "missing.",
        ),
        Misconception(
            "no biases at all",
            _count(lambda d: 12 * d * d + 2 * d, final=1),
            "Weights alone. In this GPT each linear layer has a bias besides (as many numbers as it "
            "puts out), and so has each norm.",
        ),
        Misconception(
            "linear layers without bias",
            _count(lambda d: 12 * d * d + 4 * d),
            "The linear layers' biases are missing: one number for each output, so 4 · d_model in "
            "attention, and 4 · d_model + d_model in the feed-forward layer.",
        ),
        Misconception(
            "bias of attention left out",
            _count(lambda d: 12 * d * d + 9 * d),
            "You are 4 · d_model short in each block: either the biases of query, key, value and "
            "output, or the weights and biases of the two norms. Both are there.",
        ),
        Misconception(
            "narrow hidden bias",
            _count(lambda d: 12 * d * d + 10 * d),
            "You are 3 · d_model short in each block. The feed-forward layer's hidden bias has an entry "
            "for each *hidden* number, and there are 4 · d_model of them.",
        ),
        Misconception(
            "norms with a weight alone",
            _count(lambda d: 12 * d * d + 11 * d, final=1),
            "Your norms have d_model numbers each. A LayerNorm has 2 · d_model: a weight and a bias.",
        ),
        Misconception(
            "a bias short",
            _count(lambda d: 12 * d * d + 12 * d),
            "You are d_model short in each block: one of its biases, or half a norm, is missing. There "
            "are six linear layers with a bias each, and two norms of a weight and a bias.",
        ),
        Misconception(
            "biases of the feed-forward layer left out",
            _count(lambda d: 12 * d * d + 8 * d),
            "You are 5 · d_model short in each block: the feed-forward layer has biases too, "
            "4 · d_model hidden ones and d_model where it comes back.",
        ),
        Misconception(
            "no norms at all",
            _count(lambda d: 12 * d * d + 9 * d, final=0),
            "The linear layers and the tables are right; all norms are missing: two in each block and "
            "one after the last, of 2 · d_model numbers each.",
        ),
        Misconception(
            "a bias of the head",
            lambda vocab_size, context_length, n_layers, d_model: (
                gpt_parameters(vocab_size, context_length, n_layers, d_model) + vocab_size
            ),
            "You are vocab_size over: this GPT's head has no bias.",
        ),
        Misconception(
            "one norm a block",
            _count(lambda d: 12 * d * d + 11 * d),
            "You are 2 · d_model short in each block: it has two norms, one before attention and one "
            "before the feed-forward layer, with 2 · d_model numbers each.",
        ),
        Misconception(
            "the rule of thumb",
            _count(lambda d: 12 * d * d, final=0),
            "12 · d_model² a block is the rule of thumb, and a good one: for GPT-2 it is off by a tenth "
            "of a percent. The exact count has all biases and norms as well.",
        ),
        Misconception(
            "three matrices of attention",
            _count(lambda d: 11 * d * d + 12 * d),
            "Attention has four matrices: query, key, value, and the output matrix that joins the "
            "heads. One of them, with its bias, is missing.",
        ),
        Misconception(
            "half a feed-forward layer",
            _count(lambda d: 8 * d * d + 12 * d),
            "The feed-forward layer is two matrices: one widens to 4 · d_model, one comes back. You "
            "counted the first alone.",
        ),
        Misconception(
            "feed-forward not widened",
            _count(lambda d: 6 * d * d + 10 * d),
            "Your feed-forward layer is as narrow as the stream. Its hidden layer has 4 · d_model "
            "numbers, so each of its matrices has 4 · d_model².",
        ),
        Misconception(
            "attention left out",
            _count(lambda d: 8 * d * d + 9 * d),
            "The four matrices of attention, with their biases, are missing from your blocks.",
        ),
        Misconception(
            "one block",
            lambda vocab_size, context_length, n_layers, d_model: (
                (vocab_size + context_length) * d_model + _right_block(d_model) + 2 * d_model
            ),
            "You counted one block; there are n_layers of them, each with numbers of its own.",
        ),
        Misconception(
            "final norm in each block",
            _count(lambda d: 12 * d * d + 15 * d, final=0),
            "Each of your blocks has three norms. It has two; the third stands once, after the last "
            "block.",
        ),
        Misconception(
            "tables in each block",
            lambda vocab_size, context_length, n_layers, d_model: (
                n_layers * ((vocab_size + context_length) * d_model + _right_block(d_model))
                + 2 * d_model
            ),
            "The embedding tables stand once, before the first block. You multiplied them by n_layers.",
        ),
    ),
    hints=(
        "Count one block on paper first: a linear layer from a to b numbers has a · b weights and b "
        "biases; a LayerNorm 2 · d_model.",
        "A block: four linear layers d → d, one d → 4d, one 4d → d, two norms. Together 12·d² + 13·d.",
        "Outside the blocks there are two tables (vocab_size and context_length rows of d_model), the "
        "final norm, and no more: the head's matrix is the first table. Test yourself with one call: "
        "`gpt_parameters(50257, 1024, 12, 768)`.",
    ),
    why="A block has 12·d² + 13·d numbers, and all but a sliver are the 12·d² of its matrices: 4 for "
    "attention, 8 for the feed-forward layer. The number of heads appears nowhere, for heads only "
    "divide d_model among themselves.",
)


# BERT's data


def _mask_cases():
    def case(rows, columns, mask_token, share):
        generator = torch.Generator().manual_seed(rows * columns)
        tokens = torch.randint(1, mask_token, (rows, columns), generator=generator)
        return tokens, torch.rand(rows, columns, generator=generator) < share, mask_token

    yield case(2, 7, 13, 0.4)
    yield case(5, 3, 29, 0.3)
    yield case(3, 11, 5, 0.6)


def _two_names(tokens, hidden, mask_token):
    both = tokens.masked_fill(hidden, mask_token).masked_fill(~hidden, -100)
    return both, both


MASK_TOKENS = Exercise(
    id="09.mask_tokens",
    title="Blanks to fill in",
    stars=1,
    minutes=5,
    solution=mask_tokens,
    cases=_mask_cases,
    misconceptions=(
        Misconception(
            "every token a target",
            lambda tokens, hidden, mask_token: (tokens.masked_fill(hidden, mask_token), tokens),
            "The inputs are right. As targets you give all tokens, and most of them stand in the input "
            "for all to see: the model would be praised for copying. Where nothing is hidden the "
            "target is -100.",
        ),
        Misconception(
            "the mask as target",
            lambda tokens, hidden, mask_token: (
                tokens.masked_fill(hidden, mask_token),
                tokens.masked_fill(hidden, mask_token).masked_fill(~hidden, -100),
            ),
            "Where something was hidden, your target is the mask token; it should be what was there "
            "before. That happens when `tokens` itself was changed (`tokens[hidden] = …`), or the "
            "targets were made from the inputs. `masked_fill` and `torch.where` leave the original "
            "alone.",
        ),
        Misconception(
            "one tensor under two names",
            _two_names,
            "Two names, one tensor: `inputs = tokens` copies nothing, so what you write into the "
            "targets stands in the inputs as well, -100 in both. `masked_fill` and `torch.where` make "
            "a new tensor each, and so does `tokens.clone()`.",
        ),
        Misconception(
            "hidden and shown swapped",
            lambda tokens, hidden, mask_token: (
                tokens.masked_fill(~hidden, mask_token),
                tokens.masked_fill(hidden, -100),
            ),
            "You hide everything but what was to be hidden. `hidden` is True where the mask token "
            "goes; `torch.where(hidden, a, b)` takes a where it is True.",
        ),
        Misconception(
            "inputs hidden the wrong way",
            lambda tokens, hidden, mask_token: (
                tokens.masked_fill(~hidden, mask_token),
                tokens.masked_fill(~hidden, -100),
            ),
            "The targets are right; the inputs show exactly what was to be hidden, and hide the rest. "
            "`hidden` is True where the mask token goes.",
        ),
        Misconception(
            "targets the wrong way",
            lambda tokens, hidden, mask_token: (
                tokens.masked_fill(hidden, mask_token),
                tokens.masked_fill(hidden, -100),
            ),
            "The inputs are right. Your targets ask for the tokens that stand in the input, and pass "
            "over those that were hidden: the other way round.",
        ),
        Misconception(
            "zero in place of the mask",
            lambda tokens, hidden, mask_token: (
                tokens * ~hidden,
                tokens.masked_fill(~hidden, -100),
            ),
            "Hidden places hold 0 in your inputs, and 0 is a token like any other. Put `mask_token` "
            "there: a token that stands for nothing else.",
        ),
        Misconception(
            "-100 in the inputs",
            lambda tokens, hidden, mask_token: (
                tokens.masked_fill(hidden, -100),
                tokens.masked_fill(~hidden, -100),
            ),
            "-100 is for targets: cross_entropy passes over it. In the inputs no embedding has such a "
            "row; hidden places hold `mask_token`.",
        ),
        Misconception(
            "targets 0 where shown",
            lambda tokens, hidden, mask_token: (
                tokens.masked_fill(hidden, mask_token),
                tokens.masked_fill(~hidden, 0),
            ),
            "Where nothing was hidden your target is 0, a token like any other, and the model would "
            "have to say it there. -100 is the number that cross_entropy passes over.",
        ),
        Misconception(
            "targets -1 where shown",
            lambda tokens, hidden, mask_token: (
                tokens.masked_fill(hidden, mask_token),
                tokens.masked_fill(~hidden, -1),
            ),
            "-1 is no token, and cross_entropy would stop with an error: the number it passes over is "
            "-100 (its argument `ignore_index`).",
        ),
        Misconception(
            "targets masked where shown",
            lambda tokens, hidden, mask_token: (
                tokens.masked_fill(hidden, mask_token),
                tokens.masked_fill(~hidden, mask_token),
            ),
            "Where nothing was hidden your target is the mask token, so the model would learn to say "
            "*mask* nearly everywhere. -100 is the number that cross_entropy passes over.",
        ),
        Misconception(
            "hidden tokens as a list",
            lambda tokens, hidden, mask_token: (
                tokens.masked_fill(hidden, mask_token),
                tokens[hidden],
            ),
            "`tokens[hidden]` gathers the hidden tokens in a row and forgets where they stood. Targets "
            "have the shape of the inputs, with -100 where nothing is asked.",
        ),
        Misconception(
            "hidden tokens cut out",
            lambda tokens, hidden, mask_token: (
                tokens[~hidden],
                tokens.masked_fill(~hidden, -100),
            ),
            "You cut the hidden tokens out of the text. Then nobody knows where something is missing; "
            "leave the mask token in each place.",
        ),
        Misconception(
            "shifted as for a GPT",
            lambda tokens, hidden, mask_token: (
                tokens.masked_fill(hidden, mask_token)[:, :-1],
                tokens.masked_fill(~hidden, -100)[:, 1:],
            ),
            "You shift the targets by one, as for a GPT, which predicts the *next* token. A BERT says "
            "what stands at the very place, so inputs and targets lie on top of each other.",
        ),
        Misconception(
            "targets first",
            lambda tokens, hidden, mask_token: (
                tokens.masked_fill(~hidden, -100),
                tokens.masked_fill(hidden, mask_token),
            ),
            "Both are right, in the other order: first the inputs, then the targets.",
        ),
        Misconception(
            "targets not returned",
            lambda tokens, hidden, mask_token: tokens.masked_fill(hidden, mask_token),
            "The inputs are right. Return the targets as well: `return inputs, targets`.",
        ),
    ),
    hints=(
        "Two new tensors of the shape of `tokens`; `tokens` itself stays as it is. Each differs from "
        "it in some places: which?",
        "`tokens.masked_fill(where, number)` is a copy of `tokens` with `number` wherever `where` is "
        "True. And `~hidden` is True where nothing is hidden.",
    ),
    why="The model reads the text with blanks and is asked about the blanks alone. Everything it "
    "could copy is shown and not asked for.",
)


# T5's data


def _target_cases():
    def target(rows, columns):
        generator = torch.Generator().manual_seed(rows + columns)
        return torch.randint(1, 30, (rows, columns), generator=generator)

    yield target(2, 5), 31
    yield target(7, 3), 0
    yield target(5, 11), 37


SHIFT = Exercise(
    id="09.shift",
    title="What the decoder reads",
    stars=1,
    minutes=3,
    solution=decoder_inputs,
    cases=_target_cases,
    misconceptions=(
        Misconception(
            "not shifted",
            lambda target, start: target.clone(),
            "The decoder would read the very token it has to write: the mask lets each position read "
            "itself. Move the target one place to the right.",
        ),
        Misconception(
            "one too long",
            lambda target, start: torch.cat([torch.full_like(target[:, :1], start), target], dim=1),
            "Yours is one token longer than the target. The last token is written and no longer read: "
            "leave it out, `target[:, :-1]`.",
        ),
        Misconception(
            "shifted to the left",
            lambda target, start: torch.cat(
                [target[:, 1:], torch.full_like(target[:, :1], start)], dim=1
            ),
            "You moved the target to the left: position i reads token i + 1, which lies in the future. "
            "It may read token i - 1.",
        ),
        Misconception(
            "rolled to the left",
            lambda target, start: target.roll(-1, dims=1),
            "Position i reads token i + 1, which lies in the future, and `start` is nowhere. Move the "
            "other way, and put `start` in front.",
        ),
        Misconception(
            "start at the end",
            lambda target, start: torch.cat(
                [target[:, :-1], torch.full_like(target[:, :1], start)], dim=1
            ),
            "`start` stands at the end. It belongs to the front: nothing has been written when the "
            "first token is to be found.",
        ),
        Misconception(
            "the last token comes round",
            lambda target, start: target.roll(1, dims=1),
            "`roll` brings the last token round to the front, so the decoder knows how the text will "
            "end. The first place holds `start`.",
        ),
        Misconception(
            "rolled along the batch",
            lambda target, start: target.roll(1, dims=0),
            "This moves whole texts: each decoder would read another one's target. Shift along the "
            "positions, `dim=1`, and put `start` in front.",
        ),
        Misconception(
            "first token overwritten",
            lambda target, start: torch.cat(
                [torch.full_like(target[:, :1], start), target[:, 1:]], dim=1
            ),
            "You overwrite the first token with `start` and leave the others where they are, so each "
            "of them still reads itself. All of them move one place to the right.",
        ),
        Misconception(
            "start left out",
            lambda target, start: target[:, :-1],
            "`start` is missing: the decoder has to read something when it writes the first token, and "
            "then there are as many inputs as targets.",
        ),
        Misconception(
            "zero in place of start",
            lambda target, start: torch.cat(
                [torch.zeros_like(target[:, :1]), target[:, :-1]], dim=1
            ),
            "The first place holds 0, whatever `start` is. Use the argument.",
        ),
        Misconception(
            "a row of starts",
            lambda target, start: torch.cat(
                [torch.full_like(target[:1], start), target[:-1]], dim=0
            ),
            "You put a whole text of `start` in front of the batch. It is a column that is needed: one "
            "`start` for each text, and `dim=1`.",
        ),
    ),
    hints=(
        "Write the target *cat* and below it what the decoder has read when it writes c, a and t.",
        "`torch.full_like(target[:, :1], start)` is a column of starts; `torch.cat([…], dim=1)` puts "
        "columns side by side.",
    ),
    why="While it writes token i, the decoder has read tokens 0 … i − 1 and, in front of them, "
    "`start`. Shifted so, one pass trains all positions at once, as in a GPT.",
)

EXERCISES = (GPT_CLASS, PARAMETERS, MASK_TOKENS, SHIFT)

QUIZ = (
    Question(
        "A new GPT with 50,257 tokens starts training, and the first loss is 31. What does that say?",
        (
            Choice(
                "The text is hard; the loss will come down.",
                False,
                "Before training, the text plays no part: a model that knows nothing and says so has a "
                "loss of ln 50,257 ≈ 10.8 on any text.",
            ),
            Choice(
                "It looks ahead: a mask is missing.",
                False,
                "Who sees the answer and can use it has a loss that is too *small*; and a model that has "
                "learned nothing cannot use it yet.",
            ),
            Choice(
                "It is sure, and wrong: its logits are too large. Look at the initialisation.",
                True,
                "Even guessing costs ln 50,257 ≈ 10.8. A larger loss means much probability on wrong "
                "tokens, which takes large logits.",
            ),
        ),
    ),
    Question(
        "Which of these change the number of parameters of this lesson's GPT?",
        (
            Choice(
                "A longer context.",
                True,
                "Its table of learned positions gets more rows. (With rotary positions nothing would "
                "change.)",
            ),
            Choice(
                "More heads, the same d_model.",
                False,
                "Heads divide d_model among themselves; the four matrices stay d_model × d_model.",
            ),
            Choice(
                "Another text with the same characters.",
                False,
                "The model knows the text's vocabulary, not its length or content.",
            ),
            Choice(
                "An untied head.",
                True,
                "It has a matrix of its own then: vocab_size · d_model more.",
            ),
        ),
    ),
    Question(
        "Why can a trained BERT not write a text as a GPT does, one token after the other?",
        (
            Choice(
                "Its head has no softmax.",
                False,
                "Neither has one: both heads give scores, and the softmax comes after.",
            ),
            Choice(
                "It was trained with the text to the right of each blank; when one writes, nothing is "
                "there yet.",
                True,
                "It has hardly seen a text that breaks off, and no place in it predicts the *next* token. "
                "It can be made to write, slowly and not well.",
            ),
            Choice(
                "It has no word order.",
                False,
                "It has positions like a GPT; it lacks the causal mask.",
            ),
        ),
    ),
    Question(
        "In cross-attention, where do queries, keys and values come from?",
        (
            Choice(
                "Queries from the decoder; keys and values from the encoder.",
                True,
                "Each token that is being written asks, and the source text answers: as many rows as "
                "target tokens, as many columns as source tokens.",
            ),
            Choice(
                "Queries from the encoder; keys and values from the decoder.",
                False,
                "The one that asks has the query, and it is the writer who asks about the source.",
            ),
            Choice(
                "All three from both texts, joined into one.",
                False,
                "That is what a decoder alone does with a prompt: one text, self-attention, one mask.",
            ),
        ),
    ),
    Question(
        "What follows from a tied head?",
        (
            Choice(
                "Fresh from PyTorch's random numbers, a model without blocks expects the character it "
                "has just read.",
                True,
                "As a rule: its stream is still that character's own embedding, and few vectors fit a "
                "vector better than itself. A longer vector may win, and training can change it.",
            ),
            Choice(
                "A character's score is the dot product of the last vector with that character's "
                "embedding.",
                True,
                "The head's rows are the embeddings, so the stream has to end near the embedding of "
                "what comes next.",
            ),
            Choice(
                "Predictions and inputs are the same tokens.",
                False,
                "They share a table of vectors, no more; which of them fits is up to the blocks.",
            ),
        ),
    ),
)
