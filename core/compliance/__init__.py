"""The grammar of what agents return compressed, the verdict on a text, the score over time."""
