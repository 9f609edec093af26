"""What NMT_ISA asks for, and what is left of it on a processor that has less."""

from __future__ import annotations

import pytest

from models import processor


def test_an_unknown_limit_is_one_line_and_exit_code_2(monkeypatch, capsys):
    monkeypatch.setenv("NMT_ISA", "avx")
    with pytest.raises(SystemExit) as stopped:
        processor._of_environment()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "error: NMT_ISA: found avx; expected baseline, avx2, avx512\n"


@pytest.mark.parametrize(("flags", "expected"), [({"avx2", "fma", "bmi2"}, "avx2"), ({"sse2"}, None)])
def test_a_limit_holds_where_the_processor_has_more(monkeypatch, flags, expected):
    monkeypatch.setattr(processor, "_LIMIT", "avx2")
    monkeypatch.setattr(processor, "features", lambda: frozenset(flags))
    assert processor.isa_limit() == expected


@pytest.mark.parametrize("value", ["AVX2", "avx512_core_vnni"])
def test_bf16_products_are_not_left_to_a_library_that_may_not_use_their_units(monkeypatch, value):
    monkeypatch.setattr(processor, "_LIMIT", None)
    monkeypatch.setattr(processor.torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(processor.platform, "machine", lambda: "x86_64")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    assert processor.has_bf16_units()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", value)
    assert not processor.has_bf16_units()
