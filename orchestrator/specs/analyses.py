"""Names of the analysis kinds and the modules of `orchestrator.analysis.kinds` that register them, listed without importing them."""

_KINDS = {
    "attention": ("attention-maps", "layer-attention"),
    "layer_weights": ("exploitation", "layer-weights"),
    "loss_curves": ("loss-curves",),
    "option_curves": ("hops", "steps", "depth"),
    "probing": ("probing",),
    "sentence_groups": ("length", "difficulty"),
    "significance": ("significance",),
    "speed": ("speed",),
    "training": ("accuracy", "degradation", "gradient-norms"),
    "untrained": ("grid", "lead", "parameters", "properties"),
}
MODULES = {name: module for module, names in _KINDS.items() for name in names}
KINDS = tuple(sorted(MODULES))
