"""kill -9 of a writer: the short run of what `make prove` does 500 times."""

from crash import in_a_process


def test_nothing_acknowledged_is_lost_when_a_writer_is_killed_at_random() -> None:
    found = in_a_process("random", "25")
    assert found["troubles"] == [], f"seed {found['seed']}"
    assert found["kills"] == 25
    assert found["enqueued"] > 5  # a busy machine gets less done between two kills
    assert found["settled"] > 0


def test_a_verb_killed_before_any_of_its_statements_leaves_the_store_as_it_was() -> None:
    found = in_a_process("statements")
    assert found["troubles"] == []
    # Beginning, savepoint, release and commit, and at least one statement of its own.
    assert found["killed"].keys() == {"enqueue", "exchange", "recover", "prune"}
    assert all(statements > 4 for statements in found["killed"].values())
