"""Tokens of a text, counted only where the store does not have them."""


def tokens_or_estimate(estimated: int | None, text: str) -> int:
    """Return the stored estimate of a text's tokens, or count them if there is none."""
    if estimated is not None:
        return estimated
    from .tokens import estimate_tokens  # with the tokenizer

    return estimate_tokens(text)
