"""The domain of ctxtop: its types, its measurements, the store and what changes a transcript."""
