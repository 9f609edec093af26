"""What a variant may replace, and with which signature.

Shapes: B batch, S source, T target, D d_model, L layers. h_0 = embeddings, x_l = input and h_l = output of layer l.
"""

import inspect
from typing import Any

from torch import Tensor, nn

from models.dropout import Dropout
from models.site import Flow, History, Memory, Site


class Component(nn.Module):
    """A module that stands at a site. Its `Args:` describe options of subclasses too.

    Args:
        rate: factor of the learning rate of this component's own parameters.
    """

    registry: str
    kind: str
    version: int
    packable = True  # positions are treated one by one, or by MultiHeadAttention alone: states may come as packed rows
    rate = 1.0  # factor of the learning rate of all parameters within (any module may have one)
    norm_orders: tuple[str, ...] = ("pre", "post")  # the model's orders of norm that it may stand in
    min_layers = 1
    read_if: tuple[tuple[str, str, tuple[Any, ...]], ...] = ()  # (option, another one, values of that with which the option is read)

    def __init__(self, site: Site) -> None:
        super().__init__()

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        """A line on what is wrong with the options, beyond their `Bounds`. site: side, num_layers, d_model, num_heads, norm."""
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
        """Why fewer bits would change more than rounding: decoding in them is refused, training warned of."""
        return None

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """What it learned to read, by name: [.., readers, sources], or [.., sources] of one reader; nan where there is no source.
        s: of a residual, the stream that its `read` or `end` is given; leading axes are tokens then."""
        return {}


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def packable(module: nn.Module) -> bool:
    """Whether every component in a module takes packed rows."""
    return all(component.packable for component in module.modules() if isinstance(component, Component))


class Connection(Component):
    """What each layer reads: forward(layer, history, flow) -> x_l [B, T, D] from the history of layers below; L+1: the stack's output.
    `any_width`: states may have other widths than d_model, as those of layers with `any_width`; `passes_attended`: layers see what those
    below attended to. `corrects`: each layer runs once more, on what `corrected` makes of its first output; its second one is its output.
    """

    any_width = False
    passes_attended = False
    corrects = False

    def corrected(self, layer: int, h: Tensor, history: History) -> Tensor:
        """What `layer` reads once more, made of its first output h."""
        raise NotImplementedError

    def keep(self, layer: int, h: Tensor, history: History) -> Tensor:
        """What is kept of the output of `layer` (history.kept); the output itself by default."""
        return h

    def width(self, layer: int) -> int | None:
        """Width of what `layer` reads; None = d_model."""
        return None


class Aggregation(Component):
    """What a stack returns: forward(x_top, history, flow) -> [B, T, D].
    `reads_top` is False where x_top is ignored, so that nothing is built for it. `top_alone`: x_top is all that is read, so that it can
    stand behind each block of layers as well."""

    reads_top = True
    top_alone = False


class Residual(Component):
    """How a sub-layer reads the stack's stream s and how its output joins it. One instance a sub-layer (site.place >= 1).
    `streams`: s is not one tensor [B, T, D] but what `start` makes; one more
    instance, at place 0, starts and ends it, and nothing but sub-layers reads s. `views` (of an instance): how many states `read` gives
    the function, 1 or 3 (queries, keys, values); `takes_views`: the class has instances with three. `initial_gain`: factor of the
    initial values of the function's maps, those of queries and keys excepted.
    `starts_as_identity`: its sub-layers keep their initial values under `zero_residual`, because they are the identity by themselves or
    because the method says what they are.
    """

    takes_views = False
    streams = False
    views = 1
    initial_gain = 1.0
    starts_as_identity = False

    @classmethod
    def order(cls, norm: str, **options: Any) -> str:
        """Where the norms of the stack stand: pre, post or none; the model's `norm` by default."""
        return norm

    def start(self, h_0: Tensor) -> Any:
        """h_0 [B, T, D] -> s"""
        return h_0

    def read(self, s: Any) -> tuple[Any, Any]:
        """(what the function reads, a tensor or three; s as it goes on)"""
        return s, s

    def write(self, s: Any, y: Tensor, x: Tensor, drop: Dropout) -> Any:
        """s behind the sub-layer; y [B, T, D]: the function's output before dropout, x: what it was given (the first view)."""
        return drop.add(s, y)

    def normed(self, s: Any, norm: nn.Module) -> Any:
        """s through post-norm."""
        return norm(s)

    def end(self, s: Any) -> Tensor:
        """s -> [B, T, D], before the stack's final norm"""
        assert isinstance(s, Tensor)
        return s

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """As every component's, a reader and its sources. Or, of a state of n streams S = [S_1 .. S_n] that starts as n times h_0:
        `read` p [.., n], `keep` R [.., n, n] and `write` q [.., n] of x = p S, S' = R S + q y; of the stack's end `read` alone."""
        return {}


class SelfAttention(Component):
    """forward(x, lower, context, flow) -> [B, T, D]; owns its residual and norm.
    `reads`: how many states below this layer it is given in `lower` (h_{l-1}, h_{l-2}, ...). `reads_context`: the context below its block
    is read. `reads_stream`: more of the stream than the sub-layer's residual gives it. `takes_views`: queries, keys and values may come
    from three states. `shares`: layers read each other's keys or values (flow.memo)."""

    shares = False
    reads_stream = False
    takes_views = False
    reads = 0
    reads_context = False


class CrossAttention(Component):
    """forward(x, memories, flow) -> [B, T, D]; owns its residual and norm; `memories`: all that the bridge gave this layer, at most
    `max_memories`.

    `bare`: without residual and norm, for a layer that `adds_attended`; it takes keys and values as they are, from a bridge that has them
    `mapped`. `reads_stream`: more of the stream than the sub-layer's residual gives it."""

    max_memories = 1
    bare = False
    reads_stream = False

    @classmethod
    def sublayers(cls, site: Site) -> int:
        """How many sub-layers it is."""
        return 1


class Layer(Component):
    """One layer: forward(x_l, lower states, context, memories, flow) -> (h_l, a_l); a_l is what it attended to, None in an encoder.
    `any_width`: h_l may be of another width than d_model (Site.width: that of x_l). `adds_attended`: cross-attention is `bare`.
    `self_attends` False: no position attends to others of its side. `takes_residual`: its sub-layers are joined by the side's residual.
    `merges`: it has an attention of its own in the place of self-attention and cross-attention.
    """

    reads = 0
    takes_residual = False
    any_width = False
    adds_attended = False
    self_attends = True
    merges = False

    @classmethod
    def sublayers(cls, site: Site) -> int:
        """How many sub-layers the side's residual joins."""
        return 0

    @classmethod
    def runs(cls, **options: Any) -> int:
        """How many times its sub-layers run in one pass, as calls 0, 1, .. (Flow.call)."""
        return 1

    def once(
        self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, memories: tuple[Memory, ...], flow: Flow
    ) -> tuple[Tensor, Tensor | None]:
        """`forward` with its sub-layers run once."""
        found: tuple[Tensor, Tensor | None] = self(x, lower, context, memories, flow)
        return found


class Bridge(Component):
    """What each decoder layer attends to: forward(encoded, history, extra, flow) -> a tuple of memories per layer.

    `needs_output` is False where the encoder's output is not read (then its final norm is not built). `reads_extra`: the extra
    encoder's memory is read; `needs_aligned`: position by position. `num_memories`: a layer's, at most.
    `blocks`: into how many blocks the encoder is cut (history.blocks); `reads_context`: their contexts are memories more.
    `by_sentence`: the encoder sees one sentence of a document at a time, positions starting again with each (flow.segments).
    `any_width`: the encoder's layers may have other widths than d_model. `mapped`: memories are keys and values as they are.
    `reads_layers`: states of the encoder's layers are read, not its output alone. `reads_residual`: the stream of the encoder's residual is
    read, which must be of this kind.
    """

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
        """Widths of the memories of decoder layer `layer`: one of d_model by default."""
        return (self.width,)


class ExtraEncoder(Component):
    """A second encoder beside the stack: forward(words, h_0, flow) -> Memory; words [B, S, D]: embedded words without positions, before
    dropout; h_0 [B, S, D]: what the stack reads; never packed. `width`: of its memory; `aligned`: it has a state for each position."""

    width: int
    aligned = False


class Context(Component):
    """A state over depth, made once per block (MSC): forward(C^{n-1}, b^n) -> C^n, each [B, S, D]; b^n is what the stack would return were
    block n its last. `blocks`: into how many the encoder is cut."""

    blocks: int


class Head(Component):
    """How the decoder's states become predictions: log p = sum_g w_g log softmax(W h_g + b), up to a number that makes p sum to 1.
    forward(hidden, history, source, flow) -> h_g [B, T, D]; hidden [B, T, D]: the decoder's output; source: its encoder's output as keys,
    the embedded words as values. `reads_layers`: h_g are made of the decoder's layers, and its output is not built. `reads_words`: `source`
    is given. `parts`: how many h_g an instance makes, two or more.
    """

    reads_layers = False
    reads_words = False
    parts: int

    @classmethod
    def predictions(cls, num_layers: int, **options: Any) -> int:
        """How many h_g it makes behind a decoder of so many layers."""
        raise NotImplementedError

    def shares(self) -> Tensor | tuple[float, ...]:
        """w_g"""
        raise NotImplementedError


class Regularizer(Component):
    """A term of the loss on a stack's states: forward(history, mask) -> (sum, count) over the real positions of one stack; runs inside the
    wrapped forward. The loss adds `weight` times the mean."""

    weight: float
    reads_layers = True

    def applies(self, side: str) -> bool:
        return True


class WeightPenalty(Component):
    """A term of the loss on the encoder's weights, once per update: the loss adds `weight` times forward(encoder)."""

    weight: float
    reads_layers = False
