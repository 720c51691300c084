"""The values of secrets are found in a text, whatever quotes them, at a price a loop can pay."""

import json
import time
from urllib.parse import quote, quote_plus

import pytest

from limpet.domain.masking import MOST_LINES, MOST_VALUES, Mask

SECRETS = [
    "plain-word",
    "two\nlines of it",
    'it\'s "quoted"',
    "päss/wörd +&",
    "back\\slash",
    "\ud800half",
]


def mask_of(*values: object) -> Mask:
    return Mask((json.dumps({"secrets": list(values)}), ("secrets",)))


@pytest.mark.parametrize("secret", SECRETS, ids=range(len(SECRETS)))
def test_a_value_is_masked_however_it_is_quoted(secret: str) -> None:
    in_bytes = secret.encode("utf-8", "backslashreplace")
    forms = {
        secret, repr(secret), ascii(secret), repr(in_bytes), json.dumps(secret),
        json.dumps(secret, ensure_ascii=False), repr([secret]), quote(in_bytes),
        quote(in_bytes, safe=""), quote_plus(in_bytes), repr(secret + "'"), repr(secret + "'\""),
    }  # fmt: skip
    for form in forms:
        shown = mask_of(secret, "another one")(f"before {form} after")
        assert "***" in shown
        assert not any(line in shown for line in secret.splitlines())
        assert shown.startswith("before ")
        assert shown.endswith(" after")


def test_the_longest_of_two_values_is_masked_whole() -> None:
    assert mask_of("pass", "password")("a password, a pass") == "a ***, a ***"


def test_a_number_is_masked_where_it_stands_alone() -> None:
    mask = mask_of(1234, 0.12345, 12)
    assert mask("12345 1234, x1234x 91234 0.12345 12") == "12345 ***, x***x 91234 *** 12"
    assert mask("12341234 1234") == "12341234 ***"


def test_short_values_and_texts_without_any_stay() -> None:
    assert mask_of("abc", "long enough", True, None)("abc and True") == "abc and True"
    assert mask_of()("anything") == "anything"
    assert Mask(("no json", ("secrets",)))("anything\nat all") == "***"
    assert Mask(("no json", ("secrets",)))("") == ""


def test_of_more_values_than_can_be_looked_for_the_whole_text_is_masked() -> None:
    values = [f"value-{n:06}" for n in range(MOST_VALUES + 1)]
    assert mask_of(*values)("nothing of them") == "***"
    assert mask_of(*values[1:])("nothing of them") == "nothing of them"
    lines = [f"line-{n:06}" for n in range(MOST_LINES + 1)]
    assert mask_of("\n".join(lines))("nothing of them") == "***"
    assert mask_of("\n".join(lines[2:]))("nothing of them") == "nothing of them"


def test_a_thousand_values_are_found_within_a_moment() -> None:
    spent = []
    for time_of in range(3):  # other values each time: a pattern that was compiled is kept
        values = [f"value {time_of} of {n:06}/" for n in range(1_000)]
        mask, begun = mask_of(*values), time.thread_time()
        assert mask(f"it was '{values[-1]}'") == "it was '***'"
        spent.append(time.thread_time() - begun)
    assert min(spent) < 0.06, spent
