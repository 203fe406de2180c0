"""How much of a conversation a compaction keeps, judged without a model (compaction.md 4.2).

Every metric is a pure function of two lists of entries: O, what the model would have been sent,
and C, what it would be sent after the compaction; some look at what really came after it.
"""
