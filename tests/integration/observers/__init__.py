"""Tests of observers, on a cluster of their own."""
