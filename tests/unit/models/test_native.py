"""Decoding's steps in C: the equations, their edges, and what happens where they cannot be had."""

import math
import os
import platform
import stat
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.switches import without
from models import native
from models.cache import Cache
from models.inference import prepared
from models.native import Linear
from models.native.build import BuildError, find_compiler, library
from models.packing import Packing
from models.transformer import build
from orchestrator.decoding.beam import beam_search
from orchestrator.decoding.candidates import Candidates
from orchestrator.specs.schema import DecodeSpec

try:
    find_compiler()
except BuildError as error:
    pytest.skip(f"{error}: decoding runs on torch's operations alone", allow_module_level=True)

NAN = float("nan")


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture
def random() -> torch.Generator:
    return torch.Generator().manual_seed(5)


@pytest.fixture(autouse=True, scope="module")
def there_is_a_compiler_that_takes_the_files():
    assert native.available()


@pytest.mark.parametrize("d_head", native.HEADS)
@pytest.mark.parametrize("joint", [True, False])
def test_a_hypothesis_attends_to_its_own_past_alone(random, d_head, joint):
    """Random parents, a step of two positions, sentences that leave: as if every hypothesis had keys and values of its own."""
    B, H, slot, cache = 4, 2, nn.Identity(), Cache()
    D, width, pasts = H * d_head, 1, [torch.zeros(4, 0, 2 * H * d_head)]
    for step in range(20):
        length = 2 if step == 4 else 1
        cache.begin(B * width, length, B, torch.device("cpu"))
        qkv = torch.randn(B * width, length, 3 * D, generator=random)
        q, k, v = qkv.chunk(3, dim=2) if joint else (part.contiguous() for part in qkv.chunk(3, dim=2))
        found = cache.attend(slot, q, k, v, H)
        pasts[0] = torch.cat((pasts[0], qkv[:, :, D:]), dim=1)
        expected = _attention(q, pasts[0], H)
        torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)
        cache.length += length
        wider = 1 if step < 1 else 5
        sentences = torch.arange(B) if step != 9 else torch.tensor([0, 2, 3])
        parents = torch.randint(0, width, (len(sentences), wider), generator=random)
        rows = (sentences[:, None] * width + parents).flatten()
        cache.reorder(rows)
        if len(sentences) < B:
            cache.select(sentences)
        pasts[0], B, width = pasts[0][rows], len(sentences), wider


def _attention(q: Tensor, past: Tensor, heads: int) -> Tensor:
    """Of positions q [N, T, D] over their past and themselves, [N, P, 2 D]."""
    q, k, v = (t.unflatten(2, (heads, -1)).transpose(1, 2) for t in (q, *past.chunk(2, dim=2)))
    hidden = torch.ones(q.shape[2], k.shape[2]).triu_(k.shape[2] - q.shape[2] + 1) * -1e9
    weights = (q @ k.transpose(2, 3) / math.sqrt(q.shape[3]) + hidden).softmax(dim=3)
    return (weights @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("d_head", native.HEADS)
@pytest.mark.parametrize("length", [1, 16, 21])
@pytest.mark.parametrize("packed", [False, True])
def test_attention_over_the_source_sees_no_padding(random, d_head, length, packed):
    """The memory has rows of all positions under a bias, or of the real ones alone."""
    B, H, D = 3, 2, 2 * d_head
    hidden = torch.rand(B, length, generator=random) < 0.4
    hidden[:, 0] = False
    bias = torch.where(hidden, native.HIDDEN, 0.0)[:, None, None]
    packing = Packing(~hidden)
    q, k, v = (torch.randn(B, length, D, generator=random) for _ in range(3))
    heads = [t.unflatten(2, (H, d_head)).transpose(1, 2) for t in (q, k, v)]
    expected = (heads[0] @ heads[1].transpose(2, 3) / math.sqrt(d_head) + bias).softmax(dim=3) @ heads[2]
    expected = expected.transpose(1, 2).flatten(2)
    v = v.masked_fill(hidden[:, :, None], 1e30)
    starts, rows = torch.arange(B + 1) * length, torch.cat((q, k, v), dim=2)
    if packed:
        starts, rows = packing.starts, packing.pack(rows)
    memory = native.memory_layout(*rows.chunk(3, dim=2)[1:], starts, bias, H, packed=packed)
    torch.testing.assert_close(native.attend_memory(q, *memory), expected, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("words", [9, 64, 500, 8003])
@pytest.mark.parametrize("levels", [3, 10**6])
def test_the_best_words_are_those_of_a_stable_sort(random, words, levels):
    """Of equal probabilities the lower word comes first; a word that is banned keeps its share."""
    logits = torch.randint(levels, (7, words), generator=random) * (8.0 / levels)
    banned, repeated = torch.tensor([0, 2]), torch.randint(words, (7, 2), generator=random)
    logprobs = logits.log_softmax(dim=1)
    allowed = logprobs.index_fill(1, banned, -torch.inf).scatter(1, repeated, -torch.inf)
    # ties are to be those of the numbers in use, whatever their rounding
    order = allowed.where(allowed == -torch.inf, logits).sort(dim=1, descending=True, stable=True).indices[:, :6]
    found = Candidates(logits.clone(), banned, repeated, 3, 6)
    value, word, tied = found.best(exact=False)
    possible = allowed.gather(1, order) > -torch.inf
    assert torch.equal(word[possible], order[possible])
    assert not tied
    torch.testing.assert_close(value, allowed.gather(1, order), atol=2e-6, rtol=1e-6)
    torch.testing.assert_close(found.eos, logprobs[:, 3], atol=2e-6, rtol=1e-6)


def test_a_number_that_is_none_is_not_lost():
    x = torch.randn(3, 64)
    x[1, 7] = NAN
    words = Candidates(x.clone(), torch.tensor([0]), torch.empty(3, 0, dtype=torch.long), 3, 2)
    assert words.eos.isnan().tolist() == [False, True, False]
    for relu in (False, True):
        product = Linear(torch.randn(40, 64), None, relu)(x)
        rounded = Linear(torch.ones(40, 64, dtype=torch.int8), None, relu, torch.ones(40))(x)
        for y in (product, rounded):
            assert y.isnan().all(dim=1).tolist() == [False, True, False]


@pytest.mark.parametrize("rows", [1, 14, 15, 57, 161])
@pytest.mark.parametrize(("inputs", "outputs"), [(16, 32), (300, 33), (512, 100)])
@pytest.mark.parametrize("relu", [False, True])
def test_a_linear_map_of_any_shape(random, rows, inputs, outputs, relu):
    x, w, b = (torch.randn(*shape, generator=random) for shape in ((rows, 1, inputs), (outputs, inputs), (outputs,)))
    assert Linear.takes(w)
    expected = F.linear(x.double(), w.double(), b.double())
    found = Linear(w, b, relu)(x)
    torch.testing.assert_close(found.double(), expected.relu() if relu else expected, atol=2e-4, rtol=1e-5)
    torch.testing.assert_close(Linear(w, None, relu)(x), Linear(w, torch.zeros(outputs), relu)(x), atol=0, rtol=0)


@pytest.mark.parametrize("rows", [1, 7, 14, 15])
@pytest.mark.parametrize(("inputs", "outputs"), [(16, 32), (300, 33), (4096, 64)])
@pytest.mark.parametrize("relu", [False, True])
def test_a_linear_map_of_bytes_has_exact_sums(random, rows, inputs, outputs, relu):
    x, b, s = (torch.randn(*shape, generator=random) for shape in ((rows, 1, inputs), (outputs,), (outputs,)))
    w = torch.randint(-127, 128, (outputs, inputs), generator=random, dtype=torch.int8)
    x, w[0] = x.abs() if relu else x, 127
    x[0] = 1.0 if relu else -1.0  # all products are the largest, so that a sum that is cut off at 16 bits shows
    assert Linear.takes(w.float(), bits=8)
    scale = x.abs().amax(-1, keepdim=True) / 127
    q = (x * scale.reciprocal()).round()
    expected = (q.double() @ w.double().T).float() * s * scale
    for bias in (b, None):
        wanted = expected if bias is None else expected + bias
        torch.testing.assert_close(Linear(w, bias, relu, s)(x), wanted.relu() if relu else wanted, atol=1e-5, rtol=1e-6)


def test_the_number_of_threads_changes_no_bit(random):
    x, w = torch.randn(300, 256, generator=random), torch.randn(2000, 256, generator=random)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            logits = Linear(w, None, False)(x)
            found.append((logits.clone(), *native.best_words(logits, torch.tensor([0]), torch.empty(300, 0, dtype=torch.long), 6, 3)))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("ngram", [0, 2])
def test_a_search_finds_what_it_finds_without_them(beam, ngram):
    """A whole model, prepared or not, with these steps and without: the same words."""
    config = {"d_model": 64, "d_ff": 96, "num_heads": 2, "encoder": {"num_layers": 2}, "decoder": {"num_layers": 2}}
    model = build(config, 90, 90, 1).eval()
    src = torch.randint(4, 90, (6, 9), generator=torch.Generator().manual_seed(1))
    src[:, -1] = 3
    src[2, 5:] = torch.tensor([3, 0, 0, 0])
    decode = DecodeSpec(beam_size=beam, max_ratio=1.5, no_repeat_ngram=ngram)
    with without("native"):
        expected = beam_search(model, src, decode)
    for within in (nullcontext(), prepared(model)):
        with within:
            found = beam_search(model, src, decode)
        assert [h.ids for h in found] == [h.ids for h in expected]
        assert all(abs(a.score - b.score) < 1e-4 for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("connection", ["residual", "dense"])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_plain_layers_in_one_call_compute_what_their_modules_do(monkeypatch, norm, connection, precision):
    """All layers at once or, under another connection, one by one. Who traces gets the modules."""
    decoder = {"num_layers": 3, "connection": {"kind": connection}}
    sizes = {"d_model": 64, "d_ff": 96, "num_heads": 2, "norm": norm, "encoder": {"num_layers": 2}}
    model = build(sizes | {"decoder": decoder}, 90, 90, 1).eval()
    src, tgt = (torch.randint(4, 90, (5, length), generator=torch.Generator().manual_seed(1)) for length in (9, 6))
    calls, call = [], native.CALLS["decode_layers"]
    monkeypatch.setitem(native.CALLS, "decode_layers", lambda *arguments: calls.append(arguments[2]) or call(*arguments))
    with prepared(model, precision):
        encoded, fast, slow = model.encode(src), Cache(), Cache()
        for t in range(6):
            found, expected = model.decode(tgt[:, t : t + 1], encoded, fast), model.decode(tgt[:, t : t + 1], encoded, slow, [])
            if precision == "fp32":
                torch.testing.assert_close(found, expected, atol=5e-5, rtol=1e-4)
            assert F.cosine_similarity(found.flatten(), expected.flatten(), dim=0) > 0.999
    assert calls == ([3] * 6 if connection == "residual" else [1] * 18)


def test_gradients_and_other_types_are_left_to_torch():
    x = torch.ones(2, 64)
    assert native.runs_on(x) and not native.runs_on(x.double())
    with torch.inference_mode(False), torch.enable_grad():
        assert not native.runs_on(torch.ones(1))
    with without("native"):
        assert not native.runs_on(x)


def test_no_library_is_no_fault(tmp_path, monkeypatch, request):
    """Without a compiler, with one that fails, in a folder that others may write: one line, and torch goes on."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "some.c").write_text("int some(void) {\n#ifdef __AVX__\nreturn 4;\n#endif\nreturn 3; }\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NMT_ISA", "x86-64" if platform.machine() == "x86_64" else "native")
    assert library(source).some() == 3, "instructions that NMT_ISA leaves out"
    (made,) = (tmp_path / "cache/nmt-ablate").iterdir()
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    (source / "some.c").write_text("not C\n")
    with pytest.raises(BuildError, match="failed"):
        library(source)
    assert [p.name for p in made.parent.iterdir()] == [made.name], "a build that fails leaves something behind"
    made.parent.chmod(0o777)
    with pytest.raises(BuildError, match="others"):
        library(source)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BuildError, match="no C compiler") as found:
        library(source)
    assert os.linesep not in str(found.value)
    native.available.cache_clear()
    request.addfinalizer(native.available.cache_clear)
    assert not native.available() and not native.runs_on(torch.ones(1))
