"""What a learner finds elsewhere: a GPT of torch.nn modules in one file and a loop in float32.

The peer of the course's trainer. It computes the same function as the preset `plain` (a test
copies the weights and compares), with one matrix for query, key and value and torch's fused
attention, so that it is no straw man; its AdamW is torch's default one.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention, then a feed-forward layer, each beside the residual stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class EagerGPT(nn.Module):
    """Tokens (batch, position) → logits (batch, position, vocab_size)."""

    def __init__(
        self, vocab_size: int, context_length: int, n_layers: int, n_heads: int, d_model: int
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(context_length, d_model)
        self.blocks = nn.Sequential(*(Block(d_model, n_heads) for _ in range(n_layers)))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.apply(_initialise)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        return self.head(self.norm(self.blocks(x)))


class EagerLoop:
    """Trains on random windows: AdamW, clipping, warm-up and cosine. `step` is one update."""

    def __init__(
        self, model: EagerGPT, tokens: Tensor, batch_size: int, steps: int, seed: int
    ) -> None:
        self.model = model
        self.data = tokens
        self.batch_size, self.steps, self.done = batch_size, steps, 0
        self.length = model.positions.num_embeddings
        self.generator = torch.Generator().manual_seed(seed)
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1
        )

    def step(self) -> float:
        """One update; the loss before it, in nats."""
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        starts = torch.randint(
            len(self.data) - self.length, (self.batch_size,), generator=self.generator
        )
        inputs = torch.stack([self.data[s : s + self.length] for s in starts])
        targets = torch.stack([self.data[s + 1 : s + 1 + self.length] for s in starts])
        logits = self.model(inputs)
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.done += 1
        return loss.item()

    def _rate(self, peak: float = 1e-3, lowest: float = 1e-4, warm_up: int = 100) -> float:
        if self.done < warm_up:
            return peak * (self.done + 1) / (warm_up + 1)
        progress = min(1.0, (self.done - warm_up) / max(1, self.steps - warm_up))
        return lowest + (peak - lowest) * (1 + math.cos(math.pi * progress)) / 2


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
