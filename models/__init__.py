"""Models for neural machine translation with replaceable layer fusion. torch and the standard library only."""
