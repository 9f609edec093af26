"""Work saved by sharing in the tables of the five papers: trainings, decodings and operations with every row run alone, and with equal work
done once.

    python benchmarks/sharing.py [--json]

No data is needed: a corpus is identified by its section of the spec, and each pair counts --length tokens on both sides. Rows that end by a
schedule or by patience are counted up to their limit (max_steps, else epochs of --pairs pairs). Several seeds would multiply both sums.
"""

import argparse
import functools
import json
from pathlib import Path

from orchestrator.cost.flops import work
from orchestrator.cost.work import Tokens
from orchestrator.ledger.keys import Keys, keys_of
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.specs.schema import RunSpec

ROOT = Path(__file__).parents[1]
PAPERS = ("dou2018", "mlrf2018", "hao2019", "wei2020", "shen2018")
VOCAB = 32_000
"""Vocabulary size of rows that declare none."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=25, help="tokens of a sentence")
    parser.add_argument("--pairs", type=int, default=160_000, help="of a corpus whose rows count epochs (IWSLT14 has that many)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found, everything = {}, Sums(arguments.length, arguments.pairs)
    for paper in PAPERS:
        own = Sums(arguments.length, arguments.pairs)
        for row in resolve(str(ROOT / "search_spaces" / paper)):
            if row.kind == "run":
                own.add(row)
                everything.add(row)
        found[paper] = own.as_json()
    found["all five"] = everything.as_json()
    if arguments.json:
        print(json.dumps({"benchmark": "sharing", **vars(arguments), "studies": found}))
        return
    print("| study | rows | trainings alone | once | decodings alone | once | PFLOP alone | once | saved |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, f in found.items():
        flop = [f"{f[side]['flop'] / 1e15:,.0f}" for side in ("alone", "once")]
        counts = [f"{f[side][kind]}" for kind in ("trainings", "decodings") for side in ("alone", "once")]
        print(f"| {name} | {f['rows']} | {' | '.join([*counts, *flop])} | {f['times']:.2f} x |")


class Sums:
    """Sums of work. alone: every row with all rows it is initialised from; once: each distinct key once."""

    def __init__(self, length: int, pairs: int) -> None:
        self.length, self.pairs, self.rows = length, pairs, 0
        self.alone = {"trainings": 0, "decodings": 0, "flop": 0.0}
        self.trained: dict[str, float] = {}
        self.decoded: set[str] = set()

    def add(self, row: Row) -> None:
        self.rows += 1
        for spec in [row.spec.model_copy(update={"score": score}) for score in row.also.values()] + [row.spec]:
            keys = self._keys(row, spec)
            self.alone["decodings"] += 1
            self.decoded.add(f"{keys.train} {keys.decode}")
        current: Row | None = row
        while current is not None:
            keys, flop = self._keys(current, current.spec), self._flop(current.spec)
            self.alone["trainings"] += 1
            self.alone["flop"] += flop
            self.trained[str(keys.train)] = flop
            current = current.parent

    def as_json(self) -> dict[str, object]:
        once = {"trainings": len(self.trained), "decodings": len(self.decoded), "flop": sum(self.trained.values())}
        return {"rows": self.rows, "alone": self.alone, "once": once, "times": self.alone["flop"] / once["flop"]}

    def _keys(self, row: Row, spec: RunSpec) -> Keys:
        parent = None if row.parent is None else self._keys(row.parent, row.parent.spec).train
        return keys_of(spec, _manifest(spec), parent)

    def _flop(self, spec: RunSpec) -> float:
        of_model = work(spec.model, spec.data.vocab.src or VOCAB, spec.data.vocab.tgt or VOCAB)
        pairs = spec.batch.size * spec.batch.accumulate / (self.length if spec.batch.unit == "tokens" else 1)
        updates = spec.train.max_steps or (spec.train.max_epochs or 1) * self.pairs / pairs
        return updates * of_model.training(Tokens.of([self.length], [self.length]).scaled(pairs))


def _manifest(spec: RunSpec) -> dict[str, object]:
    """Returns a stand-in for the manifest: the `data` section without the declared sizes, on which a corpus does not depend."""
    return _stand_in(spec.data.model_copy(update={"vocab": type(spec.data.vocab)()}).model_dump_json())


@functools.cache
def _stand_in(said: str) -> dict[str, object]:
    return {"text": {"generator": said}}


if __name__ == "__main__":
    main()
