"""Bad specs: one line each, exit 2, with file, line and key; nothing starts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import UserError
from orchestrator.specs.rows import resolve

# (rows or changed line of the head, line of the error, what the message says)
ROWS = [
    ("  r: {controls: [parms]}", 6, r"rows.r.controls\[0\]: found 'parms'; expected one of flops, params; did you mean params"),
    ("  r: {controls: params}", 6, "rows.r.controls: found 'params'; expected a list"),
    ("  r: {kind: quoted, controls: [params]}", 6, "controls is given in a row of kind quoted; expected only in rows of kind run"),
    ("  r@params=s: {}", 6, "found the row name 'r@params=s'; expected letters, digits and"),
    ("  r: {init_from: s@params=r}\n  s: {}", 6, "rows.r.init_from: found 's@params=r'; expected one of r, s"),
    ("  r: {use: [wide]}", 6, r"rows\.r\.use\[0\]: found 'wide'; expected none"),
    ("  r: {use: wide}", 6, "rows.r.use: found 'wide'; expected a list"),
    ("  r: {kind: quoted, use: [wide]}", 6, "use is given in a row of kind quoted"),
    ("  r: {score: {beam_size: 0}}", 6, "rows.r.score.beam_size: found 0; expected a number >= 1"),
    ("  r: {optim: {schedule: {kind: inverse-sqrt, lr: fast}}}", 6, "rows.r.optim.schedule.lr: found 'fast'; expected a number"),
    ("  r: {optim: {schedule: {kind: inverse-sqrt, lr: .inf}}}", 6, "expected a finite number"),
    ("  r: {optim: {schedule: {kind: inverse-sqrt}}}", 6, "lr is needed by schedule inverse-sqrt"),
    ("  r: {optim: {schedule: {lr: 1e-3}}}", 6, "lr is not used by schedule noam"),
    ("  r: {optim: {kind: []}}", 6, "rows.r.optim.kind: found a list; expected one of adam, muon, nag"),
    ("  r: {optim: {momentum: 0.9}}", 6, "rows.r.optim.momentum: momentum is not used by optimiser adam"),
    ("  r: {optim: {kind: nag, betas: [0.9, 0.9]}}", 6, "optim.betas: betas is not used by optimiser nag"),
    ("  r: {optim: {kind: nag, name: adam}}", 6, "optim.name: unknown key"),
    ("  r: {optim: {schedule: {kind: plateau}}}", 6, "schedule.lr: lr is needed by schedule plateau"),
    ("  r: {optim: {schedule: {kind: plateau, lr: 0.25, warmup: 4}}}", 6, "warmup is not used by schedule plateau"),
    ("  r: {optim: {schedule: {kind: plateau, lr: 0.25, min_lr: 0.25}}}", 6, "min_lr is 0.25; expected less than lr, 0.25"),
    ("  r: {optim: {schedule: {kind: plateau, lr: 1.0e-5}}}", 6, "min_lr is 0.0001; expected less than lr, 1e-05"),
    ("  r: {optim: {schedule: {kind: fixed, lr: 0.1, cut: each_rise}}}", 6, "schedule.cut: cut is not used by schedule fixed"),
    ("  r: {optim: {schedule: {shrink: 0.1}}}", 6, "schedule.shrink: shrink is not used by schedule noam"),
    ("  r: {optim: {schedule: {kind: plateau, lr: 0.25}}, train: {patience: 3}}", 6, "patience: found 3; expected none, or at least 4"),
    ("  r: {decode: {length_penalty: {alpha: tuned}}}", 6, "length_penalty.alpha: candidates are needed by alpha tuned"),
    ("  r: {decode: {length_penalty: {alpha: tund}}}", 6, "alpha: found 'tund'; expected a number or tuned"),
    ("  r: {decode: {length_penalty: {candidates: [1.0]}}}", 6, "candidates are used by alpha tuned alone, not by 0.6"),
    ("  r: {decode: {length_penalty: {alpha: tuned, candidates: []}}}", 6, "candidates: found 0 items; expected 1"),
    ("  r: {decode: {length_penalty: {kind: none, alpha: tuned, candidates: [1.0]}}}", 6, "expected kind gnmt or exponent"),
    ("  r: {decode: {length_penalty: {alpha: tuned, candidates: [1.0]}}, score: {metric: rouge}}", 6, "found tuned; .* with rouge"),
    ("  r: {train: {validate_every: epok}}", 6, "validate_every: found 'epok'; expected a whole number or epoch"),
    ("  r: {model: {dropout: {residual: 1.5}}}", 6, "found 1.5; expected a number < 1"),
    ("  r: {train: {max_steps: 12:30}}", 6, "found '12:30'; expected a whole number"),
    ("  r: {train: {max_steps: 010}}", 6, "leading zeros"),
    ('  r: {train: {max_steps: "4"}}', 6, "found '4'; expected a whole number"),
    ("  r: {train: {compile: no}}", 6, "found 'no'; expected true or false"),
    ("  r: {train: {max_steps: null}}", 6, "one of max_steps and max_epochs is needed"),
    ("  r: {data: {corpus: no}}", 6, "found 'no'; expected one of"),
    ("  r: {data: {corpus: 3}}", 6, "found 3; expected text"),
    ("  r: {data: 3}", 6, "rows.r.data: found 3; expected a mapping"),
    ("  r: {model: {d_model: 100, num_heads: 8}}", 6, "d_model 100 is not divisible by num_heads 8"),
    ("  r: {model: {d_model: 1000000000}}", 6, "expected at most"),
    ("  r: {model: {encoder: {num_layers: 100000}}}", 6, "expected at most 1000"),
    ("  r: {model: {norm: postt}}", 6, "found 'postt'; expected one of post, pre; did you mean post"),
    (
        "  r: {model: {encoder: {connection: {kind: hierarchicle}}}}",
        6,
        "connection.kind: found 'hierarchicle'; .*did you mean hierarchical",
    ),
    ("  r: {model: {encoder: {connection: hierarchical}}}", 6, "expected a mapping such as {kind"),
    ("  r: {model: {encoder: {connection: {kind: hierarchical, activation: matrix}}}}", 6, "'matrix'; expected one of attention, relu"),
    ("  r: {model: {encoder: {aggregation: {kind: linear, residual: top}}}}", 6, "residual: unknown key; expected one of kind, mode"),
    ("  r: {model: {encoder: {aggregation: {kind: iterative, dropout: 1.0}}}}", 6, "dropout is 1.0; expected at least 0 and below 1"),
    ("  r: {model: {decoder: {num_layers: 3, self_attention: {kind: multi_layer, k: 3}}}}", 6, "k 3 needs more than 3 layers"),
    ("  r: {model: {encoder: {num_layers: 3, connection: {kind: hierarchical}}}}", 6, "num_layers 3 is odd"),
    ("  r: {model: {encoder: {cross_attention: {kind: single}}}}", 6, "cross_attention: unknown key"),
    ("  r: {model: {bridge: {kind: extra}}}", 6, "bridge.kind: found extra without extra_encoder; expected .*biarn or birnn"),
    ("  r: {model: {bridge: {kind: merged}}}", 6, "found merged without extra_encoder; .*kind birnn or multi_column"),
    ("  r: {model: {extra_encoder: {kind: biarn}}}", 6, "found biarn, whose memory bridge top does not read; expected .*extra or merged"),
    ("  r: {model: {extra_encoder: {kind: birnn}, bridge: {kind: extra}}}", 6, "of which single reads 1; .*gated_sum or stacked"),
    (
        "  r: {model: {extra_encoder: {kind: biarn}, bridge: {kind: merged}}}",
        6,
        "found biarn; expected birnn or multi_column: .*merges",
    ),
    ("  r: {model: {extra_encoder: {kind: biarn, steps: 2000}}}", 6, "steps is 2000; expected at most 1000"),
    (
        "  r: {model: {encoder: {self_attention: {kind: contextual}}}}",
        6,
        "self_attention.kind: found contextual without context; expected model.context.kind multiscale",
    ),
    (
        "  r: {model: {decoder: {self_attention: {kind: contextual}}, context: {kind: multiscale, blocks: 2}, "
        "bridge: {kind: multiscale, blocks: 2}}}",
        6,
        "found contextual in the decoder",
    ),
    (
        "  r: {model: {context: {kind: multiscale, blocks: 2}}}",
        6,
        "context.kind: found multiscale, which nothing reads; expected bridge.kind multiscale",
    ),
    (
        "  r: {model: {encoder: {self_attention: {kind: contextual}}, context: {kind: multiscale, blocks: 1}}}",
        6,
        "found multiscale, which nothing reads",
    ),
    (
        "  r: {model: {encoder: {num_layers: 8}, decoder: {num_layers: 6}, bridge: {kind: multiscale}}}",
        6,
        "bridge: found blocks 6, which do not divide the encoder's 8 layers; expected one of 1, 2, 4, 8",
    ),
    (
        "  r: {model: {encoder: {num_layers: 6}, bridge: {kind: multiscale, blocks: 3}}}",
        6,
        "bridge: found blocks 3; expected 2, a block for each layer of the decoder",
    ),
    (
        "  r: {model: {encoder: {self_attention: {kind: contextual}}, context: {kind: multiscale, blocks: 4}}}",
        6,
        "context: found blocks 4, which do not divide",
    ),
    (
        "  r: {model: {decoder: {cross_attention: {kind: contextual}}, context: {kind: multiscale, blocks: 1}, "
        "bridge: {kind: multiscale, blocks: 2}}}",
        6,
        "bridge.blocks: found 2; expected 1, the blocks of the context",
    ),
    (
        "  r: {model: {context: {kind: multiscale, blocks: 2}, bridge: {kind: multiscale, blocks: 2}}}",
        6,
        "which gives 2 memories, of which single reads 1; .*contextual",
    ),
    (
        "  r: {model: {encoder: {aggregation: {kind: linear}}, bridge: {kind: multiscale, blocks: 2}}}",
        6,
        "aggregation.kind: found linear; expected top: bridge multiscale cuts",
    ),
    (
        "  r: {model: {encoder: {aggregation: {kind: linear}}, bridge: {kind: transparent}}}",
        6,
        "found linear, which bridge transparent does not read",
    ),
    (
        "  r: {model: {encoder: {layer: {kind: convolution, widths: 8}}}}",
        6,
        "connection.kind: found residual with layer convolution; expected concatenated or projected",
    ),
    (
        "  r: {model: {encoder: {connection: {kind: projected}}}}",
        6,
        "found projected with layer transformer; expected backout or .* or hierarchical or residual",
    ),
    (
        "  r: {model: {encoder: {num_layers: 3, layer: {kind: convolution, widths: [8, 8]}, connection: {kind: projected}}}}",
        6,
        "widths has 2 numbers; expected one number or 3",
    ),
    (
        "  r: {model: {encoder: {num_layers: 2, layer: {kind: convolution, widths: 8, kernels: [3, 3, 3]}, "
        "connection: {kind: projected}}}}",
        6,
        "kernels has 3 numbers; expected one number or 2",
    ),
    (
        "  r: {model: {encoder: {layer: {kind: convolution, widths: 8, kernels: 4}, connection: {kind: projected}}}}",
        6,
        "kernels has 4; expected odd numbers",
    ),
    ("  r: {model: {encoder: {layer: {kind: convolution, widths: 0}, connection: {kind: projected}}}}", 6, "widths has 0; expected 1 to"),
    (
        "  r: {model: {encoder: {layer: {kind: convolution, widths: wide}, connection: {kind: projected}}}}",
        6,
        "widths: found 'wide'; expected a whole number or a list",
    ),
    ("  r: {model: {encoder: {layer: {kind: convolution}, connection: {kind: projected}}}}", 6, "widths"),
    (
        "  r: {model: {norm: pre, encoder: {layer: {kind: convolution, widths: 8}, connection: {kind: projected}}}}",
        6,
        "found norm pre; expected post: a convolution has no norms",
    ),
    (
        "  r: {model: {encoder: {layer: {kind: convolution, widths: 8}, connection: {kind: concatenated}}}}",
        6,
        "residual: found true; expected false: connection concatenated",
    ),
    (
        "  r: {model: {decoder: {layer: {kind: convolution, widths: 8, residual: false}, connection: {kind: projected}}}}",
        6,
        "residual: found false; expected true: connection projected",
    ),
    (
        "  r: {model: {encoder: {layer: {kind: convolution, widths: 8, residual: false}, connection: {kind: concatenated, sumlen: 1}}}}",
        6,
        "sumlen is 1; expected 0 or at least 2",
    ),
    (
        "  r: {model: {encoder: {layer: {kind: convolution, widths: 8}, connection: {kind: projected}, aggregation: {kind: linear}}}}",
        6,
        "aggregation.kind: found linear with layer convolution; expected top",
    ),
    (
        "  r: {model: {encoder: {layer: {kind: convolution, widths: 8}, connection: {kind: projected}, self_attention: {kind: relative}}}}",
        6,
        "found relative with layer convolution; expected single",
    ),
    (
        "  r: {model: {encoder: {layer: {kind: convolution, widths: 8}, connection: {kind: projected}}, bridge: {kind: transparent}}}",
        6,
        "bridge.kind: found transparent with layer convolution in the encoder; expected",
    ),
    (
        "  r: {model: {decoder: {layer: {kind: convolution, widths: 8}, connection: {kind: projected}}}}",
        6,
        "cross_attention.kind: found single with layer convolution; expected multistep",
    ),
    (
        "  r: {model: {decoder: {cross_attention: {kind: multistep}}}}",
        6,
        "found multistep with layer transformer; expected contextual or gated_sum or single or stacked",
    ),
    ("  r: {model: {bridge: {kind: dense_attention_2}}}", 6, "bridge.kind: found dense_attention_2 with cross_attention single; expected"),
    (
        "  r: {model: {decoder: {layer: {kind: convolution, widths: 8}, "
        "connection: {kind: projected}, cross_attention: {kind: multistep}}}}",
        6,
        "found top with cross_attention multistep; expected dense_attention_1 or dense_attention_2 or multistep",
    ),
    (
        "  r: {model: {encoder: {num_layers: 2, layer: {kind: convolution, widths: [8, 9]}, "
        "connection: {kind: projected}}, regularizers: [{kind: diversity}]}}",
        6,
        "diversity over encoder layers of unequal widths",
    ),
    (
        "  r: {model: {positions: learned, max_positions: 250}, data: {max_length: 250}}",
        6,
        "data.max_length: found 250; expected at most 249, for model.max_positions and EOS",
    ),
    ("  r: {model: {positions: learned}, data: {max_length: null}}", 6, "max_length: found null; expected at most 1023"),
    (
        "  r: {model: {encoder: {num_layers: 2, layer: {kind: convolution, widths: [8, x]}, connection: {kind: projected}}}}",
        6,
        r"widths\[1\]: found 'x'; expected a whole number",
    ),
    (
        "  r: {model: {embeddings: tied-output, word_dim: 16, output_dim: 8}}",
        6,
        "output_dim: found 8; expected 16, the width of words: embeddings are tied-output",
    ),
    ("  r: {train: {recompute: layers, compile: true}}", 6, "recompute is layers; expected none with compile"),
    ("  r: {model: {regularizers: {kind: diversity}}}", 6, "found a mapping; expected a list"),
    ("  r: {model: {regularizers: [{weight: 1.0}]}}", 6, "kind is missing"),
    ("  r: {model: {mоdel: 4}}", 6, "U\\+043E"),
    ("  r: {model: {embeddings: three-way}, data: {subword: {joint: false}}}", 6, "expected data.subword.joint true"),
    ("  r: {data: {subword: {size: 3}}}", 6, "expected more than the 4 specials"),
    ("  r: {decode: {checkpoint: average}}", 6, "train.snapshots of at least 1"),
    ("  r: {optim: {betas: [0.9]}}", 6, "found 1 items; expected 2"),
    ("  r: {lable: x}", 6, "rows.r.lable: unknown key; .*did you mean label"),
    ("  r: {kind: quoted, model: {d_model: 8}}", 6, "found in a row of kind quoted"),
    ("  r: {expect: {bleu: high}}", 6, "expect bleu is 'high'; expected a number"),
    ("  r: {init_from: bse}\n  base: {}", 6, "found 'bse'; expected one of base, r; did you mean base"),
    ("  r: {init_from: r}", 6, "found the row itself"),
    ("  r: {compare_with: bse}\n  base: {}", 6, "rows.r.compare_with: found 'bse'; expected one of base, r; did you mean base"),
    ("  r: {compare_with: quickstart/fusion/baseline}", 6, "a row of another table"),
    ("  r: {kind: quoted, compare_with: base}\n  base: {}", 6, "compare_with is given in a row of kind quoted"),
    ("  a: {init_from: b}\n  b: {init_from: a}", 6, "circle"),
    ("  r: 3", 6, "found 3; expected a mapping"),
    ("  r: {}\n  r: {}", 7, "rows.r: found the key twice; expected once: first at line 6"),
    ("  r: {}\n  R: {}", 7, "differs only by case from r"),
    ("  ../x: {}", 6, r"found the row name '../x'; expected letters"),
    ('  "": {}', 6, "empty"),
    ("  -rf: {}", 6, "row name"),
    ("  a/b/c: {}", 6, "row name"),
    (f"  {'a' * 300}: {{}}", 6, "row name"),
    ("  ☃: {}", 6, "row name"),
    ('  "a\\x1b[31m": {}', 6, r"row name 'a\\x1b"),
    ("  r: !!python/object/apply:os.system [x]", 6, "tags are not allowed"),
    ("  r: {}\n  s: *a", 7, "aliases are not allowed"),
]
HEADS = [
    ("row:", "r: {}", 5, "unknown key; .*did you mean rows"),
    ("sweep: {seeds: []}\nrows:", "r: {}", 5, "found 0 items; expected 1"),
    ("sweep: {seeds: [1, 1]}\nrows:", "r: {}", 5, "not distinct"),
    ("sweep: {seeds: [-1]}\nrows:", "r: {}", 5, "found -1; expected a number >= 0"),
    ("sweep: {seeds: [4294967296]}\nrows:", "r: {}", 5, "expected a number <= 4294967295"),
    ("sweep: {scheduler: {kind: asha, rungs: [4, 2]}}\nrows:", "r: {}", 5, "do not increase"),
    ("sweep: {scheduler: {kind: asha, rungs: [400]}}\nrows:", "r: {}", 5, "expected at most train.max_steps, 4"),
    ("sweep: {scheduler: {kind: asha}}\nrows:", "r: {}", 5, "rungs are missing"),
    ("sweep: {scheduler: {kind: asha, rungs: [2], reduction_factor: 1}}\nrows:", "r: {}", 5, "expected a number > 1"),
    ("sweep: {scheduler: {kind: asha, rungs: [2], metric: bleau}}\nrows:", "r: {}", 5, "expected one of valid/accuracy"),
    ("sweep: {scheduler: {kind: asha, rungs: [2], mode: maximise}}\nrows:", "r: {}", 5, "expected one of max, min; did you mean max"),
    ("sweep: {scheduler: {kind: asha, rungs: [2], mode: max}}\nrows:", "r: {}", 5, "keeps the worst"),
    ("spec_version: 99\nrows:", "r: {}", 5, "unknown key"),
    ("extends: nowhere.yaml\nrows:", "r: {}", 5, "no such file"),
    ("extends: /etc/passwd\nrows:", "r: {}", 5, "relative to this file"),
    ("extends: spec.yaml\nrows:", "r: {}", 5, "does not extend this one"),
    ("templates: {wide: {modle: {}}}\nrows:", "r: {}", 5, "templates.wide.modle: unknown key; .*did you mean model"),
    ("templates: {wide: 3}\nrows:", "r: {}", 5, "templates.wide: found 3; expected a mapping"),
    ("templates: {wide: {model: 3}}\nrows:", "r: {}", 5, "templates.wide.model: found 3; expected a mapping"),
    ("templates: {wi/de: {}}\nrows:", "r: {}", 5, "templates: found the name 'wi/de'; expected letters"),
    (
        "templates: {wide: {model: {d_ff: x}}}\nrows:",
        "r: {use: [wide]}",
        5,
        "templates.wide.model.d_ff: found 'x'; expected a whole number",
    ),
    ("templates: {wide: {}}\nrows:", "r: {use: [wid]}", 7, r"use\[0\]: found 'wid'; expected wide, the only name; did you mean wide"),
    ("rows: []\nassumed:", "[x]", 5, "found a list; expected a mapping"),
]


def check(path: Path, line: int, message: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve(path)
    assert len(caught.value.lines) == 1, caught.value.lines
    text = caught.value.lines[0]
    assert "\n" not in text and text.isprintable()
    assert re.search(rf"spec\.yaml:{line}: ", text), text
    assert re.search(message, text), text


@pytest.mark.parametrize(("rows", "line", "message"), ROWS, ids=[row[2][:40] for row in ROWS])
def test_row(spec: Callable[..., Path], rows: str, line: int, message: str) -> None:
    check(spec(rows + "\n"), line, message)


@pytest.mark.parametrize(("head", "row", "line", "message"), HEADS, ids=[head[3][:40] for head in HEADS])
def test_head(spec: Callable[..., Path], head: str, row: str, line: int, message: str) -> None:
    path = spec(f"  {row}\n")
    path.write_text(path.read_text().replace("rows:", head))
    check(path, line, message)


def test_all_faults_of_a_file_in_one_pass(spec: Callable[..., Path]) -> None:
    rows = "  a: {model: {num_heds: 4}}\n  b: {train: {max_steps: fast}}\n  c: {}\n  d: {decode: {beem: 1}, lable: x}\n"
    with pytest.raises(UserError) as caught:
        resolve(spec(rows))
    assert [re.search(r"spec\.yaml:(\d+)", line)[1] for line in caught.value.lines] == ["6", "7", "9", "9"]  # type: ignore[index]


def test_all_faults_of_an_optimisation_in_one_pass(spec: Callable[..., Path]) -> None:
    rows = "  r:\n    optim:\n      momentum: 0.9\n      schedule:\n        kind: plateau\n        lr: 0.1\n        min_lr: 0.2\n"
    rows += "        cut: never\n"
    with pytest.raises(UserError) as caught:
        resolve(spec(rows + "    train: {validate_every: 1.5}\n"))
    assert sorted(re.search(r"spec\.yaml:(\d+)", line)[1] for line in caught.value.lines) == ["12", "13", "14", "8"]  # type: ignore[index]


def test_a_fault_of_the_shared_part_is_told_once(spec: Callable[..., Path]) -> None:
    path = spec("  a: {}\n  b: {}\n  c: {}\n")
    path.write_text(path.read_text().replace("d_ff: 32", "d_ff: wide"))
    check(path, 3, r"model\.d_ff: found 'wide'; expected a whole number")


def test_a_fault_of_the_parent_file_names_the_parent(spec: Callable[..., Path], tmp_path: Path) -> None:
    spec(text="model:\n  d_model: wide\n", name="base.yaml")
    path = spec("  a: {}\n  b: {model: {d_ff: 8}}\n", head="extends: base.yaml\ndata: {corpus: toy-smoke}\ntrain: {max_steps: 1}\nrows:\n")
    with pytest.raises(UserError) as caught:
        resolve(path)
    assert len(caught.value.lines) == 1 and "base.yaml:2: model.d_model: found 'wide'" in caught.value.lines[0]


def test_five_hundred_rows_with_one_bad_cell(spec: Callable[..., Path]) -> None:
    rows = "".join(f"  r{i}: {{model: {{d_ff: {'8x' if i == 321 else 8}}}}}\n" for i in range(500))
    check(spec(rows), 6 + 321, "rows.r321.model.d_ff: found '8x'")


def test_circle_of_files(spec: Callable[..., Path]) -> None:
    spec(text="extends: b.yaml\n", name="a.yaml")
    spec(text="extends: a.yaml\n", name="b.yaml")
    with pytest.raises(UserError, match="does not extend this one"):
        resolve(spec(text="extends: a.yaml\nrows: {r: {}}\n"))


@pytest.mark.parametrize("text", ["", "# only\n", "- 1\n", "3\n", "rows: {}\n", "null\n"])
def test_files_without_rows(spec: Callable[..., Path], text: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve(spec(text=text))
    assert len(caught.value.lines) == 1


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("dou2018/table1/row91", "did you mean row9"),
        ("dou2018/tabel1", "did you mean dou2018/table1"),
        ("nowhere.yaml", "no such file"),
        ("../x", "no such file|expected FILE"),
        ("a", "expected FILE.yaml, paper/table"),
        ("a/b/c/d/e", "expected FILE.yaml"),
        ("a/b\n/c", "expected FILE"),
        ("", "expected FILE"),
        ("\0.yaml", "no such file"),
    ],
)
def test_addresses(address: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        resolve(address)
    assert all(line.isprintable() for line in caught.value.lines)
