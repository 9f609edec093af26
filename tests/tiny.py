"""What the tables of slow tests have in common: a corpus of words and a Transformer that trains in seconds."""


def tiny(rest: str) -> str:
    return f"""
data: {{corpus: toy-smoke, subword: {{kind: word, size: 300, joint: false}}}}
batch: {{unit: tokens, size: 300}}
model: {{d_model: 16, d_ff: 32, num_heads: 2, norm: pre, encoder: {{num_layers: 2}}, decoder: {{num_layers: 2}}}}
optim: {{schedule: {{kind: inverse-sqrt, lr: 3.0e-3, warmup: 10}}, label_smoothing: 0.1}}
{rest}"""
