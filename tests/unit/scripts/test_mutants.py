"""The mutations of `make mutants` still fit the scripts, so that the script cannot rot unseen."""

import pytest
from mutants import MUTATIONS
from mutation import FOLDERS, ROOT, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.breaks)
def test_mutation_has_one_place_in_its_file_and_changes_it(mutation: Mutation) -> None:
    text = (ROOT / "src" / mutation.path).read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1
    assert mutation.new != mutation.old


@pytest.mark.parametrize("store", FOLDERS)
def test_each_store_has_at_least_twenty_five_different_mutations(store: str) -> None:
    made = [(each.file, each.old, each.new) for each in MUTATIONS if each.store == store]
    assert len(set(made)) == len(made) >= 25
