"""What tests of models read of a pass beside what the product keeps."""

import pytest

from models.stack import Stack


@pytest.fixture(autouse=True)
def inputs_of_layers(monkeypatch):
    """Each history also has `inputs`: x_l at index l, h_0 at index 0."""
    layer = Stack._layer

    def recorded(self, l, x, memories, history, flow):
        history.inputs = [*getattr(history, "inputs", history.outputs), x]
        return layer(self, l, x, memories, history, flow)

    monkeypatch.setattr(Stack, "_layer", recorded)
