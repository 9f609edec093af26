"""The front of score, parameters and speed."""

from orchestrator.report.figures import front


def row(bleu: float, params: int, speed: float | None = None) -> dict:
    return {"bleu": bleu, "params": params} | ({} if speed is None else {"train_speed": speed})


def test_what_is_beaten_in_nothing_is_on_the_front() -> None:
    ours = {"a": row(30.0, 100), "b": row(31.0, 120), "c": row(30.5, 130), "same": row(30.0, 100)}
    ours |= {"stopped": {"status": "stopped"}, "new": None}
    assert front(ours) == {"a": True, "b": True, "c": False, "same": True}
    assert front({"a": row(30.0, 100), "x": None}) == {}, "a row alone"


def test_speed_counts_where_it_was_measured_for_all() -> None:
    assert front({"a": row(30.0, 100, 1.0), "b": row(29.0, 100, 1.5)}) == {"a": True, "b": True}
    assert front({"a": row(30.0, 100, 1.0), "b": row(29.0, 100)}) == {"a": True, "b": False}


def test_summaries_are_ranked_by_rouge() -> None:
    assert front({"a": row(9.0, 100) | {"rougeL": 20.0}, "b": row(8.0, 100) | {"rougeL": 21.0}}) == {"a": False, "b": True}
