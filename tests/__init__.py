"""Tests: nothing here reads the network, the clock or a home folder."""
