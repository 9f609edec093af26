import hashlib
import re

import pytest

from orchestrator.data import toy
from orchestrator.data.toy_lexicon import ToyParams
from orchestrator.errors import UserError
from orchestrator.specs.corpora import load_entry

SMALL = ToyParams(seed=7, vocabulary=120, train=400, valid=50, test=60)


def test_the_text_is_the_same_on_every_machine():
    corpus = toy.generate(SMALL)
    text = "".join(f"{split}\t{a}\t{b}\n" for split in sorted(corpus) for a, b in corpus[split])
    assert hashlib.sha256(text.encode()).hexdigest() == "09e6f204fe8606cd88f7457f6db6ed6932b45dbf434de3b7fd0e6661e49f20cc"


def test_no_source_is_in_two_splits_or_has_two_targets():
    """So poor a language that train repeats itself: it would repeat valid and test as well."""
    poor = ToyParams(seed=3, vocabulary=50, complexity=0.0, train=3000, valid=50, test=60)
    made = toy.generate(poor)
    corpus = {name: [a for a, _ in pairs] for name, pairs in made.items()}
    train, valid, test = (set(corpus[split]) for split in ("train", "valid", "test"))
    assert len(train) == len(set(made["train"])) < 2900 and len(valid) == 50 and len(test) == 60
    assert not train & (valid | test) and not valid & test


BAD = [{"vocabulary": 10}, {"train": 0}, {"complexity": 1.0}, {"words": 3}, {"min_words": 50, "max_words": 12}]
POOR = [{"min_words": 20, "complexity": 0.0}, {"valid": 30000, "vocabulary": 50, "idioms": 0.99}]


@pytest.mark.parametrize("bad", [*BAD, *POOR])
def test_impossible_parameters_are_refused(bad, monkeypatch):
    monkeypatch.setattr(toy, "MOST_REJECTED", 10)
    with pytest.raises((ValueError, UserError), match=next(iter(bad))):
        toy.generate(ToyParams(**bad))


def test_the_sentence_in_the_readme_is_of_the_test_set(repository) -> None:
    readme = (repository / "README.md").read_text()
    pair = re.findall(r'echo "(.+)" \| nmt-ablate translate|reference of this test sentence is `(.+)`', readme)
    params = load_entry("toy-quickstart").sources[0].parameters.model_copy(update={"train": 1})
    assert (pair[0][0], pair[1][1]) in toy.generate(params)["test"]
