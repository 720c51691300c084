"""The mutations of `make mutants` still fit the scripts, so that the script cannot rot unseen."""

import pytest
from mutants import MUTATIONS, ROOT, TESTS_OF
from mutation import Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: f"{each.store} {each.breaks}")
def test_mutation_has_one_place_in_its_file_and_changes_it(mutation: Mutation) -> None:
    text = (ROOT / "src" / mutation.path).read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1
    assert mutation.new != mutation.old


@pytest.mark.parametrize("store", TESTS_OF)
def test_there_are_at_least_ten_different_mutations_of_each_store(store: str) -> None:
    those = [each for each in MUTATIONS if each.store == store]
    assert len({(each.path, each.old, each.new) for each in those}) == len(those) >= 10
