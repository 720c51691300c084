"""The mutations of `make mutants` still fit the SQL, so that the script cannot rot unseen."""

import pytest
from mutants import MUTATIONS, ROOT, SQL, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.breaks)
def test_mutation_has_one_place_in_its_file_and_changes_it(mutation: Mutation) -> None:
    text = (ROOT / "src" / SQL / mutation.file).read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1
    assert mutation.new != mutation.old


def test_there_are_at_least_ten_different_mutations() -> None:
    assert len({(each.file, each.old, each.new) for each in MUTATIONS}) == len(MUTATIONS) >= 10
