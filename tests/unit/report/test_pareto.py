"""The front of score, parameters and speed."""

from dataclasses import replace

from orchestrator.report.figures import Ours, front


def row(bleu: float, params: int, speed: float | None = None) -> Ours:
    return Ours(status="done", bleu=bleu, params=params, train_speed=speed)


def test_what_is_beaten_in_nothing_is_on_the_front() -> None:
    ours: dict[str, Ours | None] = {"a": row(30.0, 100), "b": row(31.0, 120), "c": row(30.5, 130), "same": row(30.0, 100)}
    ours |= {"stopped": Ours(status="stopped"), "new": None}
    assert front(ours) == {"a": True, "b": True, "c": False, "same": True}
    assert front({"a": row(30.0, 100), "x": None}) == {}, "a row alone"


def test_speed_counts_where_it_was_measured_for_all() -> None:
    assert front({"a": row(30.0, 100, 1.0), "b": row(29.0, 100, 1.5)}) == {"a": True, "b": True}
    assert front({"a": row(30.0, 100, 1.0), "b": row(29.0, 100)}) == {"a": True, "b": False}


def test_summaries_are_ranked_by_rouge() -> None:
    ours = {"a": replace(row(9.0, 100), scores={"rougeL": 20.0}), "b": replace(row(8.0, 100), scores={"rougeL": 21.0})}
    assert front(ours) == {"a": False, "b": True}
