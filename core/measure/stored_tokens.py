"""Tokens of a text, counted only where the store does not have them."""


def tokens_or_estimate(estimated: int | None, text: str) -> int:
    """Return what the store estimated of a text; only without it the tokens are counted now."""
    if estimated is not None:
        return estimated
    from .tokens import estimate_tokens  # with the tokenizer

    return estimate_tokens(text)
