"""Base classes of the parts that a variant may replace, with their signatures.

Shapes: B batch, S source, T target, D d_model, L layers. h_0 = embeddings, x_l = input and h_l = output of layer l.
"""

import inspect
from typing import Any

from torch import Tensor, nn

from models.dropout import Dropout
from models.site import Flow, History, Memory, Site


class Component(nn.Module):
    """A module at a site. The `Args:` of a base class also describe the options of its subclasses.

    Args:
        rate: factor of the learning rate of this component's own parameters.
    """

    registry: str
    kind: str
    version: int
    packable = True  # accepts packed rows: only MultiHeadAttention mixes positions
    rate = 1.0  # factor of the learning rate of all parameters in this module (any module may set it)
    norm_orders: tuple[str, ...] = ("pre", "post")  # values of `model.norm` that the component supports
    min_layers = 1
    read_if: tuple[tuple[str, str, tuple[Any, ...]], ...] = ()  # (option, other option, values of the other with which option has effect)

    def __init__(self, site: Site) -> None:
        super().__init__()

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        """Returns what is wrong, or None. site: side, num_layers, encoder_layers, decoder_layers, d_model, num_heads, norm."""
        return None

    @classmethod
    def refusal(cls, site: dict[str, Any], **options: Any) -> str | None:
        """Returns the line of `check`, or else one on `norm_orders`, `min_layers` or `read_if`, or None."""
        if (own := cls.check(site, **options)) is not None:
            return own
        if site["norm"] in Component.norm_orders and site["norm"] not in cls.norm_orders:
            return f"found norm {site['norm']}; expected {' or '.join(cls.norm_orders)} with {cls.registry} {cls.kind}"
        if site["num_layers"] < cls.min_layers:
            return f"{cls.kind} needs at least {cls.min_layers} layers; num_layers is {site['num_layers']}"
        default = {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()} if cls.read_if else {}
        given = default | options
        for name, other, values in cls.read_if:
            if given[name] != default[name] and given[other] not in values:
                return f"found {name} with {other} {_yaml(given[other])}, where it does nothing; expected {_yaml(default[name])}"
        return None

    @classmethod
    def needs_fp32(cls, site: dict[str, Any], **options: Any) -> str | None:
        """Returns why bf16 or int8 would change more than rounding, or None. A reason forbids such decoding and warns of such training."""
        return None

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns the learned weights of sources by name: [.., readers, sources], or [.., sources] for one reader; nan: no such source.
        s: for a residual, the stream that `read` or `end` receives; the leading axes are then tokens."""
        return {}


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def packable(module: nn.Module) -> bool:
    """Returns whether every component in a module accepts packed rows."""
    return all(component.packable for component in module.modules() if isinstance(component, Component))


class Connection(Component):
    """What each layer reads: forward(layer, history, flow) -> x_l [B, T, D] from the layers below. Layer L+1 gives the stack's output.
    `any_width`: the connection works with layers whose states differ in width from d_model (`any_width` of a layer).
    `passes_attended`: layers also read what the layers below attended to.
    `corrects`: each layer runs twice. The second run reads `corrected` of the first output, and its result is the layer's output.
    `for_top`: (option, value) pairs with which a part acts on connection(L+1) alone, so that something must read it; None: no part does."""

    any_width = False
    passes_attended = False
    corrects = False
    for_top: tuple[tuple[str, Any], ...] | None = None

    def corrected(self, layer: int, h: Tensor, history: History) -> Tensor:
        """Returns the input of the second run of `layer`, from its first output h."""
        raise NotImplementedError

    def keep(self, layer: int, h: Tensor, history: History) -> Tensor:
        """Returns the state that history.kept stores for `layer`: its output h by default."""
        return h

    def width(self, layer: int) -> int | None:
        """Returns the width of the input of `layer`; None: d_model."""
        return None


class Aggregation(Component):
    """What a stack returns: forward(x_top, history, flow) -> [B, T, D].
    `reads_top` False: it ignores x_top, which is not computed then. `top_alone`: it reads only x_top, also behind each block of layers."""

    reads_top = True
    top_alone = False


class Residual(Component):
    """How a sub-layer reads the residual stream s and how its output joins s. Each sub-layer has one instance (site.place >= 1).
    `streams`: `start` returns an object s, not a tensor [B, T, D]. Only sub-layers read s. One more instance at place 0 starts and ends s.
    `views` (per instance): states that `read` gives the function: 1, or 3 (queries, keys, values). `takes_views`: some instances have 3.
    `initial_gain`: factor of the initial values of the function's linear maps, except the maps of queries and keys.
    `post_norm` (per instance): whether a norm follows the sub-layer in post-norm order.
    `starts_as_identity`: `zero_residual` skips its sub-layers. They start as the identity already, or the method defines its own start."""

    takes_views = False
    streams = False
    views = 1
    initial_gain = 1.0
    post_norm = True
    starts_as_identity = False

    @classmethod
    def order(cls, norm: str, **options: Any) -> str:
        """Returns the order of the norms in the stack: pre, post or none. Default: the model's `norm`."""
        return norm

    def start(self, h_0: Tensor) -> Any:
        """h_0 [B, T, D] -> s"""
        return h_0

    def read(self, s: Any) -> tuple[Any, Any]:
        """s -> (input of the function: one tensor or three, s for `write`)"""
        return s, s

    def write(self, s: Any, y: Tensor, x: Tensor, drop: Dropout) -> Any:
        """Returns s after the sub-layer. y [B, T, D]: the function's output before dropout; x: its input (the first view)."""
        return drop.add(s, y)

    def normed(self, s: Any, norm: nn.Module) -> Any:
        """Returns s after the sub-layer's post-norm."""
        return norm(s)

    def end(self, s: Any) -> Tensor:
        """s -> [B, T, D], before the stack's final norm"""
        assert isinstance(s, Tensor)
        return s

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns weights as `Component.weights` does. A residual of n streams S = [S_1 .. S_n], all h_0 at the start, returns the
        coefficients of x = p S, S' = R S + q y: `read` p [.., n], `keep` R [.., n, n], `write` q [.., n]; the stack's end: only `read`."""
        return {}


class SelfAttention(Component):
    """The self-attention sub-layer with its residual and norm: forward(x, lower, context, flow) -> [B, T, D].
    `reads`: number of states in `lower` (h_{l-1}, h_{l-2}, ...). `reads_context`: it reads the context below its block.
    `reads_stream`: it reads more of the stream than the sub-layer's residual returns.
    `takes_views`: queries, keys and values may come from three states. `shares`: layers share keys or values (flow.memo)."""

    shares = False
    reads_stream = False
    takes_views = False
    reads = 0
    reads_context = False


class CrossAttention(Component):
    """The cross-attention sub-layer with its residual and norm: forward(x, memories, flow) -> [B, T, D].

    `memories`: the memories of this layer from the bridge, at most `max_memories`.
    `bare`: without residual and norm, for a layer that `adds_attended`. It applies no maps to keys and values: the bridge is `mapped`.
    `reads_stream`: it reads more of the stream than the sub-layer's residual returns."""

    max_memories = 1
    bare = False
    reads_stream = False

    @classmethod
    def sublayers(cls, site: Site) -> int:
        """Returns the number of its sub-layers."""
        return 1


class Layer(Component):
    """One layer: forward(x_l, lower states, context, memories, flow) -> (h_l, a_l); a_l is what it attended to, None in an encoder.
    `any_width`: the width of h_l may differ from d_model (Site.width is the width of x_l). `adds_attended`: cross-attention is `bare`.
    `self_attends` False: no position attends to other positions of its side. `takes_residual`: the side's residual joins its sub-layers.
    `merges`: one attention of its own replaces self-attention and cross-attention."""

    reads = 0
    takes_residual = False
    any_width = False
    adds_attended = False
    self_attends = True
    merges = False

    @classmethod
    def sublayers(cls, site: Site) -> int:
        """Returns the number of sub-layers that the side's residual joins."""
        return 0

    @classmethod
    def runs(cls, **options: Any) -> int:
        """Returns how often its sub-layers run in one pass. The runs are calls 0, 1, .. (Flow.call)."""
        return 1

    def once(
        self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, memories: tuple[Memory, ...], flow: Flow
    ) -> tuple[Tensor, Tensor | None]:
        """Returns what `forward` returns, but runs the sub-layers only once."""
        found: tuple[Tensor, Tensor | None] = self(x, lower, context, memories, flow)
        return found


class Bridge(Component):
    """What each decoder layer attends to: forward(encoded, history, extra, flow) -> a tuple of memories per layer.

    `needs_output` False: it does not read the encoder's output, and the encoder's final norm is not built.
    `reads_extra`: it reads the extra encoder's memory. `needs_aligned`: that memory must have one state per source position.
    `num_memories`: maximum number of memories per layer. `reads_context`: the blocks' contexts are additional memories.
    `blocks`: number of blocks of the encoder (history.blocks). `any_width`: the encoder's layers may differ in width from d_model.
    `by_sentence`: the encoder reads each sentence of a document separately; positions restart in each sentence (flow.segments).
    `mapped`: memories are final keys and values; cross-attention applies no maps to them.
    `reads_layers`: it reads states of the encoder's layers, not only the output.
    `reads_residual`: it reads the stream of the encoder's residual, which must be of this kind."""

    reads_layers = False
    reads_residual: str | None = None
    needs_output = True
    any_width = False
    mapped = False
    reads_extra = False
    needs_aligned = False
    by_sentence = False
    num_memories = 1
    blocks = 0
    reads_context = False

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.num_layers, self.width = site.num_layers, site.d_model

    def memory_dims(self, layer: int) -> tuple[int, ...]:
        """Returns the widths of the memories of decoder layer `layer`. Default: one memory of width d_model."""
        return (self.width,)


class ExtraEncoder(Component):
    """A second encoder beside the stack: forward(words, h_0, flow) -> Memory. Its inputs are never packed.
    words [B, S, D]: embedded words without positions, before dropout; h_0 [B, S, D]: the input of the stack.
    `width`: width of its memory; `aligned`: its memory has one state per position."""

    width: int
    aligned = False


class Context(Component):
    """A state over depth, computed once per block (MSC): forward(C^{n-1}, b^n) -> C^n, each [B, S, D].
    b^n is what the stack would return if block n were the last block. `blocks`: number of blocks of the encoder."""

    blocks: int


class Head(Component):
    """How the decoder's states become predictions: log p = sum_g w_g log softmax(W h_g + b), up to a constant that normalises p.
    forward(hidden, history, source, flow) -> h_g [B, T, D]. hidden [B, T, D]: the decoder's output.
    source: the encoder's output as keys, the embedded source words as values; only with `reads_words`.
    `reads_layers`: the h_g come from the decoder's layers, and the decoder's output is not built. `parts`: number of h_g, at least 2."""

    reads_layers = False
    reads_words = False
    parts: int

    @classmethod
    def predictions(cls, num_layers: int, **options: Any) -> int:
        """Returns the number of h_g for a decoder of `num_layers` layers."""
        raise NotImplementedError

    def shares(self) -> Tensor | tuple[float, ...]:
        """w_g"""
        raise NotImplementedError


class Regularizer(Component):
    """A loss term on a stack's states: forward(history, mask) -> (sum, count) over the real positions of one stack.
    It runs inside the wrapped forward. The loss adds `weight` times the mean."""

    weight: float
    reads_layers = True

    def applies(self, side: str) -> bool:
        return True


class WeightPenalty(Component):
    """A loss term on the encoder's weights. Once per update, the loss adds `weight` times forward(encoder)."""

    weight: float
    reads_layers = False
