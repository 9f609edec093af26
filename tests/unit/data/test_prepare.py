import gzip
import os
import subprocess
import sys

import numpy as np
import pytest

from orchestrator.data import build, subword
from orchestrator.data import prepare as module
from orchestrator.data.prepare import manifest, prepare
from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import split_key, training_key
from orchestrator.specs.schema import DataSpec, Subword
from tests.unit.conftest import refused

SPEC = DataSpec(corpus="tiny", subword=Subword(size=120))
KINDS = [Subword(kind=kind, size=140, joint=joint) for kind in ("bpe", "unigram", "word") for joint in (True, False)]
MERGED = [Subword(kind=kind, size=140, joint=False, merges="joint") for kind in ("bpe", "unigram")]


def spec(**fields) -> DataSpec:
    return SPEC.model_copy(update=fields)


@pytest.mark.parametrize("how", [*KINDS, *MERGED], ids=lambda how: f"{how.kind}-{'joint' if how.joint else 'separate'}-{how.merges}")
def test_text_comes_back_and_pairs_hold_what_encode_gives(tiny, tmp_path, how):
    ready = prepare(spec(subword=how), tiny, tmp_path / "cache")
    assert (ready.config["vocabularies"] == ["joint"]) is how.joint and max(ready.src_size, ready.tgt_size) <= 140
    assert (ready.src_size == ready.tgt_size) or not how.joint
    lines = [line for split in ("valid", "test") for line in ready.sources(split)]
    if how.kind == "word":
        lines = [" ".join(word for word in line.split() if not word.startswith("x")) for line in lines]
    ids = ready.encode(lines, "src")
    assert ready.decode(ids, "src") == lines
    assert not {0, 2, 3} & {i for line in ids for i in line}
    assert ready.decode([[2, *line, 3, 0, 0] for line in ids], "src") == lines, "PAD, BOS and EOS are no text"
    pairs = ready.pairs("test")
    assert len(pairs) == 6 and pairs.src.dtype == np.uint16 and pairs.src_offsets.dtype == np.int64 and isinstance(pairs.src, np.memmap)
    assert [pairs[i][0] for i in range(6)] == ready.encode(ready.sources("test"), "src")
    assert [pairs[i][1] for i in range(6)] == ready.encode(ready.references("test")[0], "tgt")
    assert [len(pairs[i][1]) for i in range(6)] == pairs.tgt_lengths.tolist()


def test_joint_merges_segment_both_sides_alike_and_each_side_has_a_vocabulary_of_its_own(tiny, tmp_path):
    """The same pieces as with one vocabulary, but for those that the other side alone uses: these are UNK."""
    how = {"size": 140, "kind": "bpe"}
    one = prepare(spec(subword=Subword(**how, joint=True)), tiny, tmp_path / "cache")
    two = prepare(spec(subword=Subword(**how, joint=False, merges="joint")), tiny, tmp_path / "cache")
    assert two.src_size < one.src_size and two.tgt_size < one.tgt_size
    for side in ("src", "tgt"):
        lines = one.tokenise(one.sources("test") if side == "src" else one.references("test")[0], side)
        joint, own = one.encode_tokens(lines, side), two.encode_tokens(lines, side)
        assert [len(line) for line in joint] == [len(line) for line in own]
        used = two.pairs("train").src if side == "src" else two.pairs("train").tgt
        size = two.src_size if side == "src" else two.tgt_size
        assert set(range(4, size)) == {int(i) for i in used}, "every number behind the specials is used"
    foreign = two.encode_tokens(one.references("test")[0], "src")
    assert any(subword.UNK in line for line in foreign) or two.src_size == one.src_size


def test_tokenisation_and_case_are_applied_and_undone(tiny, tmp_path):
    for stem in ("train", "valid", "test"):
        for side in "ab":
            path = tiny / "tiny" / f"{stem}.{side}"
            path.write_text("".join(f'{line}, (it\'s "{side}")!\n' for line in path.read_text().splitlines()))
    ready = prepare(spec(tokenizer="moses", lowercase=True), tiny, tmp_path / "cache")
    raw = ready.references("test")[0]
    assert raw[0].endswith(', (it\'s "b")!') and raw[0].upper() != raw[0], "references stay as they are"
    tokens = ready.tokenise(raw, "tgt")
    assert tokens[0].endswith(' , ( it \'s " b " ) !') and tokens[0] == tokens[0].lower()
    ids = ready.encode(raw, "tgt")
    assert ready.decode_tokens(ids) == tokens
    assert ready.decode(ids) == [line.lower() for line in raw]


def test_prepared_once_per_content(tiny, tmp_path, monkeypatch):
    first = prepare(SPEC, tiny, tmp_path / "cache")
    monkeypatch.setattr(module, "build", None)  # would fail if called
    again = prepare(spec(vocab={"src": 5, "tgt": 6}), tiny, tmp_path / "cache")
    assert again.path == first.path and again.key == first.key == digest(first.manifest)
    assert [p.name for p in (tmp_path / "cache").iterdir() if not p.name.endswith(".lock")] == [first.key[:16]]


def test_learning_is_deterministic(tiny, tmp_path):
    one, two = (prepare(SPEC, tiny, tmp_path / name) for name in ("one", "two"))
    files = sorted(p.name for p in one.path.iterdir())
    assert files == sorted(p.name for p in two.path.iterdir())
    for name in files:
        assert (one.path / name).read_bytes() == (two.path / name).read_bytes(), name


def test_manifest_is_of_content_not_of_names(tiny, tmp_path):
    before = manifest(SPEC, tiny)
    path = tiny / "tiny" / "train.a"
    (tiny / "train.a.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert manifest(SPEC, tiny) == before
    assert prepare(SPEC, tiny, tmp_path / "cache").stats["splits"]["train"]["pairs"] == 60
    (tiny / "train.a.gz").write_bytes(gzip.compress(b"another\n" * 60))
    assert manifest(SPEC, tiny) != before


@pytest.mark.parametrize("change", [{"lowercase": True}, {"max_words": 5}, {"subword": Subword(size=99)}, {"tokenizer": "moses"}])
def test_every_option_is_in_the_keys(tiny, change):
    one, two = manifest(SPEC, tiny), manifest(spec(**change), tiny)
    assert one != two and training_key(one) != training_key(two)
    assert manifest(spec(vocab={"src": 9, "tgt": 9}), tiny) == one, "declared sizes decide nothing"


def test_absent_data_is_no_error_until_it_is_needed(tiny, tmp_path):
    assert manifest(SPEC, None) is None
    (tiny / "tiny" / "valid.b").unlink()
    assert manifest(SPEC, tiny) is None
    (line,) = refused(prepare, SPEC, tiny, tmp_path / "cache")
    assert "valid.b[.gz]: no such file (there is valid.a)" in line


def test_filters_touch_the_training_text_only(tiny, tmp_path):
    train = tiny / "tiny" / "train.a"
    lines = train.read_text().splitlines()
    lines[3:5] = ["", "haus " * 4 + "katze"]
    train.write_text("\n".join(lines) + "\n")
    ready = prepare(spec(max_words=6, max_length=14, max_ratio=1.9), tiny, tmp_path / "cache")
    dropped = (train_stats := ready.stats["splits"]["train"])["dropped"]
    assert dropped["empty"] == 1 and dropped["max_words"] > 0 and dropped["max_length"] > 0
    assert train_stats["pairs"] + sum(dropped.values()) == 60
    pairs = ready.pairs("train")
    assert max(pairs.src_lengths.max(), pairs.tgt_lengths.max()) <= 14
    both = pairs.src_lengths, pairs.tgt_lengths
    assert (np.maximum(*both) <= 1.9 * np.minimum(*both)).all()
    assert len(ready.pairs("valid")) == len(ready.pairs("test")) == 6


def test_the_ratio_is_of_the_longer_to_the_shorter_side(tiny, tmp_path):
    for i, side in enumerate("ab"):
        path = tiny / "tiny" / f"train.{side}"
        lines = path.read_text().splitlines()
        lines[i] = "x"
        lines[2:4] = ["haus baum hund", "haus baum hund rot"]
        path.write_text("\n".join(lines) + "\n")
    words = Subword(kind="word", size=300, joint=False)
    pairs = prepare(spec(subword=words), tiny, tmp_path / "cache").pairs("train")
    ratios = [max(pair) / min(pair) for pair in zip(pairs.src_lengths, pairs.tgt_lengths, strict=True)]
    assert [r > 1 for r in ratios] == [True, True] + [False] * 58
    for limit in (min(ratios[:2]), max(ratios), min(ratios[:2]) - 0.01):
        ready = prepare(spec(subword=words, max_ratio=limit), tiny, tmp_path / "cache")
        assert ready.stats["splits"]["train"]["dropped"]["max_ratio"] == sum(r > limit for r in ratios)


def test_several_references(tiny, tiny_entry, catalogued, tmp_path):
    catalogued(tiny_entry(references=3))
    text = (tiny / "tiny" / "test.b").read_text()
    for i in range(3):
        (tiny / "tiny" / f"test.b{i}").write_text(text.replace("\n", f" R{i}\n"))
    ready = prepare(SPEC, tiny, tmp_path / "cache")
    assert [stream[0][-2:] for stream in ready.references("test")] == ["R0", "R1", "R2"]
    assert len(ready.references("valid")) == 1
    assert ready.decode([ready.pairs("test")[0][1]])[0] == ready.references("test")[0][0]


def test_unknown_splits_and_raw_training_lines_are_refused(tiny, tmp_path):
    ready = prepare(SPEC, tiny, tmp_path / "cache")
    assert list(ready.stats["splits"]) == ["train", "valid", "test"]
    for call in (ready.pairs, ready.sources, ready.references):
        with pytest.raises(UserError, match="train, valid, test"):
            call("test_2031")
    with pytest.raises(UserError, match="not kept"):
        ready.sources("train")


def test_malformed_text_leaves_nothing_behind(tiny, tmp_path):
    """What is wrong with text: test_corpus."""
    path = tiny / "tiny" / "test.a"
    path.write_bytes(b"\n" + path.read_bytes().split(b"\n", 1)[1])
    with pytest.raises(UserError, match="the first is line 1"):
        prepare(SPEC, tiny, tmp_path / "cache")
    assert [p for p in (tmp_path / "cache").iterdir() if p.is_dir()] == []


def test_text_that_changes_meanwhile_is_refused(tiny, tmp_path, monkeypatch):
    path = tiny / "tiny" / "train.b"
    monkeypatch.setattr(module, "build", lambda *given, **more: (path.write_text(path.read_text().lower()), build.build(*given, **more))[1])
    with pytest.raises(UserError, match="corpus tiny: its text changed since"):
        prepare(SPEC, tiny, tmp_path / "cache")


def test_filters_that_leave_nothing_and_a_vocabulary_below_the_alphabet_say_so(tiny, tmp_path):
    assert "60 by max_words" in refused(prepare, spec(max_words=1), tiny, tmp_path / "cache")[0]
    (line,) = refused(prepare, spec(subword=Subword(size=10)), tiny, tmp_path / "cache")
    assert line.startswith("cannot learn a bpe vocabulary of 10 pieces: ") and "required_chars" in line


def test_what_a_killed_process_left_is_swept(tiny, tmp_path):
    key = digest(manifest(SPEC, tiny))
    leftover = tmp_path / "cache" / f".{key[:16]}.999-dead.tmp"
    leftover.mkdir(parents=True)
    prepare(SPEC, tiny, tmp_path / "cache")
    assert not leftover.exists()


def test_large_vocabularies_use_wide_ids(tiny, tmp_path, monkeypatch):
    class Shifted(build.subword.Words):
        def encode(self, lines):
            return [[69_999] for _ in lines]

    for name in ("learn", "load"):
        monkeypatch.setattr(build.subword, name, lambda *args: Shifted([""] * 69_996))
    ready = prepare(SPEC, tiny, tmp_path / "cache")
    assert ready.pairs("train").src.dtype == np.int32 and ready.pairs("train")[0] == ([69_999], [69_999])


RACE = """
import sys
from pathlib import Path
from orchestrator.data import build, prepare as module
from orchestrator.specs.schema import DataSpec
built = []
original = module.build
module.build = lambda *args, **options: (built.append(1), original(*args, **options))[1]
sys.stdin.readline()
ready = module.prepare(DataSpec(corpus="toy-smoke"), None, Path(sys.argv[1]))
print(len(built), ready.key, len(ready.pairs("train")), int(ready.pairs("train").src.sum()))
"""


def test_racing_processes_end_with_one_store(tmp_path, repository):
    cache = tmp_path / "cache"
    command, environment = [sys.executable, "-c", RACE, str(cache)], os.environ | {"PYTHONPATH": str(repository)}
    racers = [subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) for _ in range(3)]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    outputs = [racer.communicate(timeout=60)[0].split() for racer in racers]
    assert not any(racer.returncode for racer in racers) and len({tuple(output[1:]) for output in outputs}) == 1
    assert sum(int(output[0]) for output in outputs) == 1
    assert sorted(p.name for p in cache.iterdir() if p.is_dir()) == [outputs[0][1][:16]]


def test_each_file_is_in_the_keys_of_what_reads_it(tiny):
    def keys() -> tuple[str, ...]:
        found = manifest(DataSpec(corpus="tiny"), tiny)
        return training_key(found), split_key(found, "valid"), split_key(found, "test")

    before, changed = keys(), {}
    for path in sorted((tiny / "tiny").iterdir()):
        text = path.read_text()
        path.write_text(text.replace("x6", "y6").replace("X6", "Y6"))
        changed[path.name] = [after != was for after, was in zip(keys(), before, strict=True)]
        path.write_text(text)
    each = {"train": [True, False, False], "valid": [True, True, False], "test": [False, False, True]}
    assert changed == {f"{split}.{side}": each[split] for split in each for side in "ab"} and keys() == before


def test_words_by_frequency_then_alphabet():
    words = subword.Words.learn(["b b a a c d"], 7)
    assert words.words[4:] == ["a", "b", "c"]
    assert words.encode(["d c"]) == [[1, 6]] and words.decode([[1, 6]]) == ["<unk> c"]
