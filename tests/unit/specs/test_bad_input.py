"""Bad specs: one line each, exit 2, with file, line and key; nothing starts."""

import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import UserError
from orchestrator.specs.check import warnings
from orchestrator.specs.rows import resolve
from tests.unit.conftest import refused
from tests.unit.training.support import changed

CONV = "layer: {kind: convolution, widths: 8}, connection: {kind: projected}"
TWO = "context: {kind: multiscale, blocks: 2}"
BRIDGE = "bridge: {kind: multiscale, blocks: 2}"
ONE = "context: {kind: multiscale, blocks: 1}"


def model(text: str) -> str:
    return f"{{model: {{{text}}}}}"


def encoder(text: str) -> str:
    return model(f"encoder: {{{text}}}")


def decoder(text: str) -> str:
    return model(f"decoder: {{{text}}}")


# (what follows `r:`, or whole rows; what the message says; its line)
ROWS = [
    ("{controls: [parms]}", r"rows.r.controls\[0\]: found 'parms'; expected one of flops, params; did you mean params"),
    ("{kind: quoted, controls: [params]}", "controls is given in a row of kind quoted; expected only in rows of kind run"),
    ("  r@params=s: {}", "found the row name 'r@params=s'; expected letters, digits and"),
    ("  r: {init_from: s@params=r}\n  s: {}", "rows.r.init_from: found 's@params=r'; expected one of r, s"),
    ("{use: [wide]}", r"rows\.r\.use\[0\]: found 'wide'; expected none"),
    ("{score: {beam_size: 0}}", "rows.r.score.beam_size: found 0; expected a number >= 1"),
    ("{optim: {schedule: {kind: inverse-sqrt, lr: fast}}}", "rows.r.optim.schedule.lr: found 'fast'; expected a number"),
    ("{optim: {schedule: {kind: inverse-sqrt, lr: .inf}}}", "expected a finite number"),
    ("{optim: {schedule: {kind: inverse-sqrt}}}", "lr is needed by schedule inverse-sqrt"),
    ("{optim: {schedule: {lr: 1e-3}}}", "lr is not used by schedule noam"),
    ("{optim: {kind: nag, betas: [0.9, 0.9]}}", "optim.betas: betas is not used by optimiser nag"),
    ("{optim: {kind: nag, name: adam}}", "optim.name: unknown key"),
    ("{optim: {schedule: {kind: wsd, lr: 1.0, warmup: 10, warmup_ratio: 0.1}}}", "ratio: warmup is 10; expected 0 beside warmup_ratio"),
    ("{optim: {schedule: {kind: plateau, lr: 1.0e-5}}}", "min_lr is 0.0001; expected less than lr, 1e-05"),
    ("{optim: {schedule: {kind: fixed, lr: 0.1, cut: each_rise}}}", "schedule.cut: cut is not used by schedule fixed"),
    ("{optim: {schedule: {kind: plateau, lr: 0.25}}, train: {patience: 3}}", "patience: found 3; expected none, or at least 4"),
    ("{decode: {length_penalty: {alpha: tuned}}}", "length_penalty.alpha: candidates are needed by alpha tuned"),
    ("{decode: {max_extra: 100001}}", "decode.max_extra: found 100001; expected a number <= 100000"),
    ("{decode: {length_penalty: {alpha: tund}}}", "alpha: found 'tund'; expected a number or tuned"),
    ("{decode: {length_penalty: {alpha: 60.0}}}", "alpha: found 60.0; expected a number <= 10"),
    ("{decode: {length_penalty: {candidates: [1.0]}}}", "candidates are used by alpha tuned alone, not by 0.6"),
    ("{decode: {length_penalty: {kind: none, alpha: tuned, candidates: [1.0]}}}", "expected kind gnmt or exponent"),
    ("{decode: {length_penalty: {alpha: tuned, candidates: [1.0]}}, score: {metric: rouge}}", "found tuned; .* with rouge"),
    ("{train: {validate_every: epok}}", "validate_every: found 'epok'; expected a whole number or epoch"),
    ("{model: {dropout: {residual: 1.5}}}", "found 1.5; expected a number < 1"),
    ('{train: {max_steps: "4"}}', "found '4'; expected a whole number"),
    ("{train: {max_steps: 123456789012345678901}}", "max_steps: found 1.2345.*e\\+20; expected a whole number"),
    ("{train: {max_steps: null}}", "one of max_steps and max_epochs is needed"),
    ("{model: {d_model: 100, num_heads: 8}}", "d_model 100 is not divisible by num_heads 8"),
    ("{model: {d_model: 1000000000}}", "expected a number <= 100000"),
    ("{model: {norm: postt}}", "found 'postt'; expected one of post, pre; did you mean post"),
    ("{model: {encoder: {connection: {kind: hierarchicle}}}}", "connection.kind: found 'hierarchicle'; .*did you mean hierarchical"),
    ("{model: {encoder: {connection: hierarchical}}}", "expected a mapping such as {kind"),
    ("{model: {encoder: {connection: {kind: hierarchical, activation: matrix}}}}", "'matrix'; expected one of attention, relu"),
    ("{model: {encoder: {aggregation: {kind: linear, residual: top}}}}", "residual: unknown key; expected one of kind, mode"),
    ("{model: {encoder: {aggregation: {kind: mlrf-self-attention, n_hop: 10000000}}}}", "n_hop: found 10000000; expected a number <="),
    ("{model: {encoder: {aggregation: {kind: mlrf-self-attention, n_hop: 2.0}}}}", "n_hop: found 2.0; expected a whole number"),
    ("{model: {decoder: {num_layers: 3, self_attention: {kind: multi_layer, k: 3}}}}", "k 3 needs more than 3 layers"),
    ("{model: {encoder: {cross_attention: {kind: single}}}}", "cross_attention: unknown key"),
    ("{model: {regularizers: [{kind: diversity, weight: .inf}]}}", "weight: found inf; expected a finite number"),
    (encoder("connection: {kind: backout}, aggregation: {kind: linear}"), "found backout, .* where nothing reads it; expected a"),
    (encoder("connection: {kind: embedding_skip, backout: true}, aggregation: {kind: linear}"), "embedding_skip with backout true, which"),
    (model("encoder: {connection: {kind: dense, final_norm: true}}, bridge: {kind: mudd}"), "found dense with final_norm true, which acts"),
    (model(f"{TWO}, encoder: {{self_attention: {{kind: contextual}}}}, bridge: {{kind: mudd}}"), "found mudd with a context, whose"),
    ("{model: {bridge: {kind: extra}}}", "bridge.kind: found extra without extra_encoder; expected .*biarn or birnn"),
    ("{model: {extra_encoder: {kind: biarn}}}", "found biarn, whose memory bridge top does not read; expected .*extra or merged"),
    ("{model: {extra_encoder: {kind: birnn}, bridge: {kind: extra}}}", "of which single reads 1; .*gated_sum or stacked"),
    ("{model: {extra_encoder: {kind: biarn}, bridge: {kind: merged}}}", "found biarn; expected birnn or multi_column: .*merges"),
    (encoder("self_attention: {kind: contextual}"), "self_attention.kind: found contextual without context; expected model.context.kind"),
    (model(f"decoder: {{self_attention: {{kind: contextual}}}}, {TWO}, {BRIDGE}"), "found contextual in the decoder"),
    (model("context: {kind: multiscale, blocks: 2}"), "context.kind: found multiscale, which nothing reads; expected bridge.kind"),
    (model("encoder: {num_layers: 8}, decoder: {num_layers: 6}, bridge: {kind: multiscale}"), "bridge: found blocks 6, which do not"),
    (model("encoder: {num_layers: 6}, bridge: {kind: multiscale, blocks: 3}"), "bridge: found blocks 3; expected 2, a block for each"),
    (model("encoder: {self_attention: {kind: contextual}}, context: {kind: multiscale, blocks: 4}"), "context: found blocks 4, which do"),
    (model(f"decoder: {{cross_attention: {{kind: contextual}}}}, {ONE}, {BRIDGE}"), "bridge.blocks: found 2; expected 1"),
    (model("context: {kind: multiscale, blocks: 2}, bridge: {kind: multiscale, blocks: 2}"), "which gives 2 memories, of which single"),
    (model("encoder: {aggregation: {kind: linear}}, bridge: {kind: multiscale, blocks: 2}"), "aggregation.kind: found linear; expected"),
    (model("encoder: {aggregation: {kind: linear}}, bridge: {kind: transparent}"), "found linear, which bridge transparent does not read"),
    (encoder("layer: {kind: convolution, widths: 8}"), "connection.kind: found residual with layer convolution; expected concatenated or"),
    (encoder("connection: {kind: projected}"), "found projected with layer transformer; expected backout or .* or hierarchical or"),
    (encoder("num_layers: 3, " + CONV.replace("8", "[8, 8]")), "widths has 2 numbers; expected one number or 3"),
    (encoder("layer: {kind: convolution, widths: 8, kernels: 4}, connection: {kind: projected}"), "kernels has 4; expected odd numbers"),
    ("{model: {encoder: {layer: {kind: convolution, widths: 0}, connection: {kind: projected}}}}", "widths has 0; expected 1 to"),
    ("{model: {encoder: {layer: {kind: convolution}, connection: {kind: projected}}}}", "widths"),
    (model(f"norm: pre, encoder: {{{CONV}}}"), "found norm pre; expected post with layer convolution"),
    (encoder("layer: {kind: convolution, widths: 8}, connection: {kind: concatenated}"), "residual: found true; expected false"),
    (decoder("layer: {kind: convolution, widths: 8, residual: false}, connection: {kind: projected}"), "residual: found false; expected"),
    (encoder("layer: {kind: convolution, widths: 8, residual: false}, connection: {kind: concatenated, sumlen: 1}"), "sumlen is 1"),
    (encoder(CONV + ", aggregation: {kind: linear}"), "aggregation.kind: found linear with layer convolution; expected top"),
    (encoder(CONV + ", self_attention: {kind: relative}"), "found relative with layer convolution; expected single"),
    (model(f"encoder: {{{CONV}}}, bridge: {{kind: transparent}}"), "bridge.kind: found transparent with layer convolution in the encoder"),
    (decoder(CONV), "cross_attention.kind: found single with layer convolution; expected multistep"),
    (decoder("cross_attention: {kind: multistep}"), "found multistep with layer transformer; expected contextual or gated_sum or single"),
    ("{model: {bridge: {kind: dense_attention_2}}}", "bridge.kind: found dense_attention_2 with cross_attention single; expected"),
    (decoder(CONV + ", cross_attention: {kind: multistep}"), "found top with cross_attention multistep; expected dense_attention_1 or"),
    (model("regularizers: [{kind: diversity}], encoder: {num_layers: 2, " + CONV.replace("8", "[8, 9]") + "}"), "diversity over"),
    ("{model: {positions: learned, max_positions: 250}, data: {max_length: 250}}", "data.max_length: found 250; expected at most 249, for"),
    ("{model: {positions: learned}, data: {max_length: null}}", "max_length: found null; expected at most 1023"),
    ("{model: {positions: learned}, batch: {pad_to: 1025}}", "batch.pad_to: found 1025; expected at most 1024, model.max_positions"),
    (encoder("num_layers: 2, " + CONV.replace("8", "[8, x]")), "widths\\[1\\]: found 'x'; expected a whole number"),
    (model("embeddings: tied-output, word_dim: 16, output_dim: 8"), "output_dim: found 8; expected 16, the width of words: embeddings"),
    ("{train: {recompute: layers, compile: true}}", "recompute is layers; expected none with compile"),
    ("{model: {regularizers: {kind: diversity}}}", "found a mapping; expected a list"),
    ("{model: {regularizers: [{weight: 1.0}]}}", "kind is missing"),
    ("{model: {mоdel: 4}}", r"U\+043E"),
    ("{model: {embeddings: three-way}, data: {subword: {joint: false}}}", "expected data.subword.joint true"),
    ("{data: {subword: {size: 3}}}", "expected a number > 4"),
    ("{decode: {checkpoint: average}}", "train.snapshots of at least 1"),
    ("{optim: {betas: [0.9]}}", "found 1 items; expected at least 2"),
    ("{lable: x}", "rows.r.lable: unknown key; .*did you mean label"),
    ("{kind: quoted, model: {d_model: 8}}", "found in a row of kind quoted"),
    ("{expect: {bleu: high}}", "expect bleu is 'high'; expected a number"),
    ("{expect: {delta: .nan}}", "expect delta is nan; expected a number"),
    ("{expect: {params: failed}}", "expect params is 'failed'"),
    ("{failed_below: -1}", "failed_below"),
    ("{also: {valid: {test: vlaid}}}", r"rows\.r\.also\.valid\.test: found 'vlaid'; .*did you mean valid"),
    ("{also: {bleu: {test: valid}}}", "also.bleu: found a figure of this name; expected another: it is a column of reports"),
    ("{means: {params: [bleu]}}", "means.params: found a figure of this name; expected another: it is a column of reports"),
    ("{model: {encoder: {num_layers: 100000000007}, bridge: {kind: multiscale}}}", "encoder.num_layers: found 100000000007; expected"),
    ("{means: {average: [mt04, bleu]}}", r"rows\.r\.means\.average: found 'mt04'; expected bleu|expected one of bleu"),
    ("{also: {valid: {test: valid}}, means: {valid: [bleu]}}", "found the name of a figure in also"),
    ("{kind: analysis, analysis: length}", "of is missing"),
    ("{kind: analysis, analysis: lenght, of: [base]}", "found 'lenght'; .*did you mean length"),
    ("  base: {}\n  r: {kind: analysis, analysis: length, of: [bsae]}", r"rows\.r\.of\[0\]: found 'bsae'; .*did you mean base", 7),
    ("{kind: analysis, analysis: length, of: [dou2018/table2/row1]}", "a row of kind quoted; expected one of kind run"),
    ("{workers: [2]}", r"workers is \[2\]; expected the fewest and the most, such as \[2, 8\]"),
    ("{assumed: [model.enc]}", r"rows.r.assumed\[0\]: found 'model.enc', which no row has; expected one of .* names"),
    ("{of: [base]}", "of is given in a row of kind run"),
    ('{note: "two\\nlines"}', "note has more than one line"),
    ("  r: {init_from: bse}\n  base: {}", "found 'bse'; expected one of base, r; did you mean base"),
    ("{init_from: r}", "found the row itself"),
    ("  r: {init_from: base, train: {snapshots: 2}, decode: {checkpoint: average}}\n  base: {}", "snapshots .* in demo/small/base"),
    ("  r: {init_from: base, optim: {ema: 0.9}, decode: {checkpoint: ema}}\n  base: {}", "found ema; .* in demo/small/base"),
    (
        "  r: {init_from: base, model: {d_model: 8}}\n  base: {}",
        "init_from: found 'base', of d_model 16; expected a row of d_model 8",
    ),
    ("  r: {compare_with: bse}\n  base: {}", "rows.r.compare_with: found 'bse'; expected one of base, r; did you mean base"),
    ("{compare_with: quickstart/fusion/baseline}", "a row of another table"),
    ("  a: {compare_with: b}\n  b: {compare_with: c}\n  c: {compare_with: a}", "a -> b -> c -> a"),
    ("{workers: 4096}", "workers"),
    ("  a: {init_from: b}\n  b: {init_from: a}", "circle"),
    ("3", "found 3; expected a mapping"),
    ("  r: {}\n  r: {}", "rows.r: found the key twice; expected once: first at line 6", 7),
    ("  r: {}\n  R: {}", "differs only by case from r", 7),
    ("  ../x: {}", "found the row name '../x'; expected letters"),
    ('  "": {}', "empty"),
    (f"  {'a' * 300}: {{}}", "row name", 6),
    ('  "a\\x1b[31m": {}', r"row name 'a\\x1b"),
]
# (in place of `rows:`, row, what the message says; its line)
HEADS = [
    ("row:", "r: {}", "unknown key; .*did you mean rows"),
    ("ladder: [mini-64, minni]\nrows:", "r: {}", r"ladder\[1\]: found 'minni'; .*did you mean mini"),
    ("none: null\nrows:", "r: {}", "none: unknown key; "),
    ("sweep: {seeds: [1, 1]}\nrows:", "r: {}", "not distinct"),
    ("sweep: {seeds: [4294967296]}\nrows:", "r: {}", "expected a number <= 4294967295"),
    ("sweep: {scheduler: {kind: asha, rungs: [4, 2]}}\nrows:", "r: {}", "do not increase"),
    ("sweep: {scheduler: {kind: asha, rungs: [400]}}\nrows:", "r: {}", "expected at most train.max_steps, 4"),
    ("sweep: {scheduler: {kind: asha}}\nrows:", "r: {}", "rungs are missing"),
    ("sweep: {scheduler: {kind: asha, rungs: [2], reduction_factor: 1}}\nrows:", "r: {}", "expected a number > 1"),
    ("sweep: {scheduler: {kind: asha, rungs: [2], metric: bleau}}\nrows:", "r: {}", "expected one of valid/accuracy"),
    ("sweep: {scheduler: {kind: asha, rungs: [2], mode: max}}\nrows:", "r: {}", "mode: unknown key"),
    ("assumed: [data.corpis]\nrows:", "r: {}", r"assumed\[0\]: found 'data.corpis', which no row has; .*did you mean data.corpus"),
    ("templates: {t: {assumed: [model.enc]}}\nrows:", "r: {use: [t]}", r"templates.t.assumed\[0\]: found 'model.enc', which"),
    ("claims: [{row: r, changes: [model.bridg]}]\nrows:", "r: {}", r"claims\[0\].changes\[0\]: found 'model.bridg', .*mean model.bridge"),
    ("tune: {space: {optim.schedule.lrr: {uniform: [1, 2]}}}\nrows:", "r: {}", "lrr: found 'optim.schedule.lrr', which no row has"),
    ("tune: {own: {lr: {uniform: [1, 2]}}}\nrows:", "r: {}", "tune.own.lr: found 'lr', which no row has"),
    (
        "tune: {own: {optim.ema: {choice: [0.5, 0.9]}}, stop: {rungs: [2, 9]}}\nrows:",
        "r: {}",
        "stop.rungs: found a rung at step 9; expected",
    ),
    ("extends: nowhere.yaml\nrows:", "r: {}", "no such file"),
    ("extends: /etc/passwd\nrows:", "r: {}", "relative to this file"),
    ("extends: spec.yaml\nrows:", "r: {}", "does not extend this one"),
    ("templates: {wi/de: {}}\nrows:", "r: {}", "templates: found the name 'wi/de'; expected letters"),
    ("templates: {wide: {model: {d_ff: x}}}\nrows:", "r: {use: [wide]}", "templates.wide.model.d_ff: found 'x'; expected a whole number"),
    ("templates: {wide: {}}\nrows:", "r: {use: [wid]}", r"use\[0\]: found 'wid'; expected wide, the only name; did you mean wide", 7),
    ("means: {average: [mt04]}\ngrid:", "axes: {a: {key: model.d_ff, grid: [8]}}", "means.average: found 'mt04'"),
    ("rows: []\nassumed:", "[x]", "found a list; expected a mapping"),
]


def check(path: Path, line: int, message: str) -> None:
    (text,) = refused(resolve, path)
    assert "\n" not in text and text.isprintable()
    assert re.search(rf"spec\.yaml:{line}: ", text), text
    assert re.search(message, text), text


@pytest.mark.parametrize("case", ROWS, ids=[row[1][:40] for row in ROWS])
def test_row(spec, case: tuple[Any, ...]) -> None:
    rows, message, line = (*case, 6)[:3]
    check(spec(f"{rows if rows.startswith('  ') else f'  r: {rows}'}\n"), line, message)


@pytest.mark.parametrize("case", HEADS, ids=[head[2][:40] for head in HEADS])
def test_head(spec, case: tuple[Any, ...]) -> None:
    head, row, message, line = (*case, 5)[:4]
    path = spec(f"  {row}\n")
    path.write_text(path.read_text().replace("rows:", head))
    check(path, line, message)


def test_all_faults_of_a_file_in_one_pass(spec) -> None:
    rows = "  a: {model: {num_heds: 4}}\n  b: {train: {max_steps: fast}}\n  c: {}\n  d: {decode: {beem: 1}, lable: x}\n"
    rows += "  e: {data: {corpus: toy-smok}, train: {max_steps: x}}\nswep: 1\nladder: [minni]\ncontrol_rows: [f]\n"
    rows += "claims: [{row: f}, {row: a, seeds: 1}]\nalso: {bleu: {}, greedy: {beam_sise: 1}}\nmeans: {m: [greedi]}\n"
    lines = [re.search(r"spec\.yaml:(\d+)", line)[1] for line in refused(resolve, spec(rows))]  # type: ignore[index]
    assert lines == ["6", "7", "9", "9", "10", "10", "11", "12", "13", "14", "14", "15", "15", "16"]


def test_all_faults_of_an_optimisation_in_one_pass(spec) -> None:
    rows = "  r:\n    optim:\n      momentum: 0.9\n      schedule:\n        kind: plateau\n        lr: 0.1\n        min_lr: 0.2\n"
    rows += "        cut: never\n"
    lines = refused(resolve, spec(rows + "    train: {validate_every: 1.5}\n"))
    assert sorted(re.search(r"spec\.yaml:(\d+)", line)[1] for line in lines) == ["12", "13", "14", "8"]  # type: ignore[index]


def test_a_fault_of_the_shared_part_is_told_once_and_names_the_parent_file(spec) -> None:
    check(spec(text="extends: nowhere.yaml\nrows: {r: {use: [wide]}}\n"), 1, "no such file")
    path = spec("  a: {}\n  b: {}\n  c: {}\n")
    path.write_text(path.read_text().replace("d_ff: 32", "d_ff: wide"))
    check(path, 3, r"model\.d_ff: found 'wide'; expected a whole number")
    spec(text="model:\n  d_model: wide\n", name="base.yaml")
    path = spec("  a: {}\n  b: {model: {d_ff: 8}}\n", head="extends: base.yaml\ndata: {corpus: toy-smoke}\ntrain: {max_steps: 1}\nrows:\n")
    lines = refused(resolve, path)
    assert len(lines) == 1 and "base.yaml:2: model.d_model: found 'wide'" in lines[0]


@pytest.mark.parametrize("text", ["", "# only\n", "- 1\n", "3\n", "rows: {}\n", "null\n"])
def test_files_without_rows(spec, text: str) -> None:
    assert len(refused(resolve, spec(text=text))) == 1


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("dou2018/table1/row91", "did you mean row9"), ("dou2018/tabel1", "did you mean dou2018/table1"), ("nowhere.yaml", "no such file"),
        ("../x", "no such file|expected FILE"), ("a", "expected FILE.yaml, paper/table"), ("a/b/c/d/e", "expected FILE.yaml"),
        ("a/b\n/c", "expected FILE"), ("", "expected FILE"), ("\0.yaml", "no such file"),
    ],
)  # fmt: skip
def test_addresses(address: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        resolve(address)
    assert all(line.isprintable() for line in caught.value.lines)


def test_what_a_spec_says_in_vain_is_warned_of() -> None:
    restart = {"after_steps": 20, "schedule": {"kind": "fixed", "lr": 0.1}}
    one = changed(optim={"restart": restart}, score={"split_compounds": True})
    two = changed(score={"metric": "multi-bleu", "tokenize": "char", "split_compounds": True})
    later = changed(optim={"restart": restart}, train={"max_steps": 21})
    assert warnings([("a", one), ("b", two), ("c", one), ("d", later)]) == [
        "warning: a, c: optim.restart.after_steps 20: it never begins, for train.max_steps is 20",
        "warning: a, c: score.split_compounds true: metric sacrebleu does not use it",
        "warning: b: score.tokenize char: metric multi-bleu does not use it",
    ]
