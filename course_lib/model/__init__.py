"""The model: configuration, attention, positions, layers, the block, and the GPT made of them."""
