"""What a change of one file of a corpus renames: training, decoding, or nothing."""

from orchestrator.data.prepare import manifest
from orchestrator.ledger.keys import split_key, training_key
from orchestrator.specs.schema import DataSpec


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
