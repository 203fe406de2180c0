"""What hooks answer, one module a feature: each has `answer(call)`, which gives a Reply or None."""
