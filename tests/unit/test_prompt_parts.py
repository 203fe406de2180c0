"""Which parts of a prompt its author typed, and which were pasted: by their form."""

from __future__ import annotations

import pytest
from ctxtop.core.transcript.prompt_parts import is_written, typed_parts

FOREIGN = "The cart must never be empty."
TOTAL = "- The total is shown with its tax, as the law of the country wants it.\n"
DISCOUNT = "3. Discounts of the season, of the guest and of the country they live in.\n"
SPECIFICATION = f"""SHOP REWRITE
The shop is a web page with a cart. It shows all goods of the store, sorted by their names.

CART
- A guest has one cart. {FOREIGN}
- Do not keep carts of guests for more than a day.
{TOTAL * 8}
Totals
1. Goods
2. Shipping, which must be shown
{DISCOUNT * 6}
"""


def own(text: str) -> str:
    return "\n\n".join(typed_parts(text))


@pytest.mark.parametrize(
    "text",
    [
        "Please fix the cart. Never touch the seeds.",
        "fix these:\n1. the total is wrong\n2. dont show the tax twice",
        (
            "I read the page — it is good. The cart must stay where it is, and the total below it,"
            " so that a guest sees both at once."
        ),
        "Technology:\n- Python\n- SQLite only\n\nAlways write tests first.",
        (
            "Constraints: Keep the `Cart` and the `Total` apart, and never let the one import the"
            " other, not even in tests or examples."
        ),
        (
            "In @src/cart/total.py the total is read from `Cart` and `Goods`, and the tax of the"
            " guest must never be read twice."
        ),
        (
            "the total is read from `Cart` and `Goods` — and the tax of the guest must never be"
            " read twice, so the page is as fast as it was."
        ),
    ],
    ids=["short", "a list", "speaks", "one title", "constraints", "a file", "small letters"],
)
def test_what_a_person_typed_is_whole(text: str) -> None:
    assert own(text) == text


@pytest.mark.parametrize(
    "document",
    [
        f"# Cart\n\n{FOREIGN}",
        f"| cart | rule |\n|---|---|\n| a | {FOREIGN} |",
        f"Traceback (most recent call last):\n{FOREIGN}",
        f"2026-01-01 10:00:00 start\n{FOREIGN}",
        f"warn: Shop.Cart[10]\n      {FOREIGN}",
        f" FAIL  src/cart.test.js > {FOREIGN}",
        f"    at read (cart.js:1:2)\n{FOREIGN}",
        f"Warning:\n     {FOREIGN}",
        f"❯ cat cart.txt\n{FOREIGN}",
        f"(Server pid=80)\n(Server pid=80) {FOREIGN}",
        f"Uncaught TypeError: no cart. {FOREIGN}",
        f"12:3 Warning: {FOREIGN}",
        f"total = 1\nrest = 2\n# {FOREIGN}",
        f"      - name: Check\n        run: |\n          {FOREIGN}",
        f'"The cart is for all guests\nof the shop. {FOREIGN}"',
        f"Hi all,\n\nwe like the cart. {FOREIGN}\n\nRegards",
        f"Here is the spec:\n\n{FOREIGN}",
        f"Implement the following plan:\n\n{FOREIGN}",
    ],
    ids=[
        "heading", "table", "traceback", "log", "framework", "tests", "frame", "warning",
        "terminal", "server", "error", "linter", "code", "yaml", "quotation", "letter",
        "specification", "plan",
    ],
)  # fmt: skip
def test_a_document_lasts_to_the_end(document: str) -> None:
    text = f"Look at this\n{document}\n\nI say: please always run it."

    assert FOREIGN not in own(text)
    assert "always run" not in own(text)  # a document may hold anything
    if "following" not in document and "spec" not in document:
        assert own(text) == "Look at this\n"


def test_of_a_long_text_under_titles_only_orders_count() -> None:
    kept = own(f"Please build this.\n\n{SPECIFICATION}")

    assert "Please build this." in kept
    assert "- Do not keep carts of guests for more than a day." in kept
    assert "must" not in kept
    # A short one is how people write.
    assert FOREIGN in own(f"CART\n- {FOREIGN}\n\nTOTAL\n- It is shown.\n\nTAX\n- It is shown.")


@pytest.mark.parametrize(
    "paragraph",
    [
        (
            "10 GB disk — you already filled it during a build, which is usual for this size."
            "\nMemory — small for three services, so avoid builds on the machine itself."
        ),
        (
            "- **Navigation:** The bar is fixed — consider hints for its icons.\n- **Trail:** You"
            " have one, ensure it’s always visible and shows the place."
        ),
        (
            "Live Updates: The page must watch all carts and their totals, which requires a stream"
            " of events to the browser without constant polling."
        ),
        (
            "Findings of Last Week\nThe `CartStore` is cleared before the totals are read, and"
            " the tax should never be read from `total.py` in that place."
        ),
    ],
    ids=["an answer", "labels", "one label", "a title"],
)
def test_written_prose_is_pasted_until_somebody_speaks(paragraph: str) -> None:
    assert is_written(paragraph)
    text = f"{paragraph}\n\nThe cart must be small.\n\nCan you do this? Never drop a cart."
    assert own(text) == "Can you do this? Never drop a cart."


def test_who_calls_a_pasted_list_their_rules_makes_it_an_order() -> None:
    rules = (
        "- **Names:** The parts of a name are joined by a dash, never by a blank or a dot.\n"
        "- **Dates:** The day comes first and the year is always written with four digits."
    )
    assert is_written(rules)
    assert own(f"The list:\n\n{rules}") == "The list:"
    assert own(f"Follow these conventions:\n\n{rules}").endswith(rules)
